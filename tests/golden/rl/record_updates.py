"""Records updates of the learners: losses, gradients' norms and what parameters become, by PyTorch and NumPy.

    python3 record_updates.py OUTPUT_FOLDER

It needs torch and stable_baselines3 (for its RMSprop). All inputs are float32, all arithmetic is float64, gradients are
autograd's. README.md, section 15, says what the file contains.
"""
import json
import math
import os
import sys

import numpy
import stable_baselines3
import torch
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from torch import nn

STEPS = 3  # updates on the same batch
INPUTS, ACTIONS = 3, 3
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def uniform(random, shape, low=-1.0, high=1.0):
    """Numbers that a float32 holds."""
    return random.uniform(low, high, shape).astype(numpy.float32).astype(float)


def plain(x):
    """For JSON."""
    if isinstance(x, torch.Tensor):
        x = x.detach().numpy()
    return numpy.asarray(x).tolist()


class Mlp(nn.Module):
    """Its parameters in order: weights [out][in] and biases of each layer."""

    def __init__(self, random, sizes, activation):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:]))
        self.activation = activation
        for parameter in self.parameters():
            parameter.data = torch.tensor(uniform(random, parameter.shape, -0.7, 0.7))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


def flat(parameters):
    return torch.cat([p.detach().reshape(-1) for p in parameters])


def copy_to(module, other):
    module.load_state_dict(other.state_dict())


class ActorCritic(nn.Module):
    """Parameters: the policy's network, the value's, then the logarithms of deviations."""

    def __init__(self, random, numbers):
        super().__init__()
        self.policy = Mlp(random, [INPUTS, 8, 6, numbers or ACTIONS], torch.tanh)
        self.value = Mlp(random, [INPUTS, 8, 6, 1], torch.tanh)
        self.log_std = nn.Parameter(torch.tensor(uniform(random, numbers, -1, 0.2))) if numbers else None

    def parts(self):
        return [*self.policy.parameters(), *self.value.parameters()] + ([] if self.log_std is None else [self.log_std])

    def forward(self, obs, action):
        """log_prob, entropy, value."""
        if self.log_std is None:
            of = torch.distributions.Categorical(logits=self.policy(obs))
            return of.log_prob(action), of.entropy(), self.value(obs)[:, 0]
        of = torch.distributions.Normal(self.policy(obs), self.log_std.exp())
        return of.log_prob(action).sum(1), of.entropy().sum(1), self.value(obs)[:, 0]


def actions(random, rows, numbers):
    return uniform(random, (rows, numbers)) if numbers else random.integers(ACTIONS, size=rows)


def clipped_step(optimizer, parameters, loss, most):
    """The norm before the clip. Parameters without a gradient have zeros, as the optimizers' moments know them."""
    optimizer.zero_grad()
    loss.backward()
    for p in parameters:
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
    norm = float(nn.utils.clip_grad_norm_(parameters, most))
    optimizer.step()
    return norm


def a2c(random, numbers, normalize):
    rows, net = 24, ActorCritic(random, numbers)
    settings = {"learning_rate": 7e-4, "value_coefficient": 0.5, "entropy_coefficient": 0.01, "rmsprop_epsilon": 1e-5,
                "rmsprop_decay": 0.99, "max_grad_norm": 0.5, "normalize_advantage": normalize, "numbers": numbers}
    batch = {"obs": uniform(random, (rows, INPUTS), -2, 2), "action": actions(random, rows, numbers),
             "advantage": uniform(random, rows, -2, 2), "return": uniform(random, rows, -3, 3)}
    t = {name: torch.tensor(column) for name, column in batch.items()}
    optimizer = RMSpropTFLike(net.parts(), lr=7e-4, alpha=0.99, eps=1e-5)
    out = {"algorithm": "a2c", "settings": settings, "batch": batch, "params": flat(net.parts()), "steps": []}
    for _ in range(STEPS):
        log_prob, entropy, value = net(t["obs"], t["action"])
        advantage = t["advantage"]
        if normalize:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy_loss, value_loss = -(advantage * log_prob).mean(), nn.functional.mse_loss(value, t["return"])
        loss = policy_loss - 0.01 * entropy.mean() + 0.5 * value_loss
        norm = clipped_step(optimizer, net.parts(), loss, 0.5)
        out["steps"].append({"policy_loss": policy_loss.item(), "value_loss": value_loss.item(), "loss": loss.item(),
                             "entropy": entropy.mean().item(), "grad_norm": norm})
    return {**out, "params_after": flat(net.parts())}


def bc(random, numbers):
    rows, net = 24, ActorCritic(random, numbers)
    settings = {"learning_rate": 5e-4, "entropy_coefficient": 0.02, "adam_epsilon": 1e-5, "max_grad_norm": 0.5,
                "numbers": numbers}
    batch = {"obs": uniform(random, (rows, INPUTS), -2, 2), "action": actions(random, rows, numbers)}
    t = {name: torch.tensor(column) for name, column in batch.items()}
    optimizer = torch.optim.Adam(net.parts(), lr=5e-4, eps=1e-5)
    out = {"algorithm": "bc", "settings": settings, "batch": batch, "params": flat(net.parts()), "steps": []}
    for _ in range(STEPS):
        log_prob, entropy, _ = net(t["obs"], t["action"])
        loss = -log_prob.mean() - 0.02 * entropy.mean()
        norm = clipped_step(optimizer, net.parts(), loss, 0.5)
        out["steps"].append({"loss": loss.item(), "log_prob": log_prob.mean().item(),
                             "entropy": entropy.mean().item(), "grad_norm": norm})
    return {**out, "params_after": flat(net.parts())}


def vtrace(played, target, discount, reward, value, following):
    """All bars and lambda 1, for rows that name their successors, from the last one to the first."""
    ratio = numpy.minimum(1, numpy.exp(target - played))
    vs, advantage = value.copy(), numpy.zeros_like(value)
    for i in reversed(range(len(value))):
        n = following[i]
        if n < 0:
            continue
        ended = discount[i] == 0
        next_value, next_vs = (0, 0) if ended else (value[n], vs[n])
        vs[i] = value[i] + ratio[i] * (reward[i] + discount[i] * next_value - value[i]) \
            + discount[i] * ratio[i] * (next_vs - next_value)
        advantage[i] = ratio[i] * (reward[i] + discount[i] * next_vs - value[i])
    return vs, advantage


def impala(random, clip, target_interval):
    steps, envs, net = 6, 4, ActorCritic(random, 0)
    rows = steps * envs + envs + 1  # transitions, what each environment showed last, and the end of a truncated episode
    following = numpy.array([i + envs for i in range(steps * envs)] + [-1] * (envs + 1))
    batch = {"obs": uniform(random, (rows, INPUTS), -2, 2), "action": actions(random, rows, 0),
             "log_prob": uniform(random, rows, -1.8, -0.5), "reward": uniform(random, rows, -1, 2),
             "discount": numpy.full(rows, float(numpy.float32(0.95)))}
    for i in (5, 14):
        batch["discount"][i], following[i] = 0, i  # terminated
    following[10] = rows - 1  # truncated
    batch["next"] = following
    t = {name: torch.tensor(column) for name, column in batch.items()}
    real = torch.tensor(following >= 0)
    optimizer = torch.optim.Adam(net.parts(), lr=5e-4, eps=1e-5)
    settings = {"learning_rate": 5e-4, "value_coefficient": 0.5, "entropy_coefficient": 0.01, "clip": clip,
                "target_interval": target_interval, "adam_epsilon": 1e-5, "max_grad_norm": 0.5, "numbers": 0}
    out = {"algorithm": "impala", "settings": settings, "batch": batch, "params": flat(net.parts()), "steps": []}
    old = ActorCritic(random, 0)
    copy_to(old, net)
    clips = 0
    for step in range(STEPS):
        log_prob, entropy, value = net(t["obs"], t["action"])
        old_log_prob = old(t["obs"], t["action"])[0].detach()
        target = old_log_prob if target_interval else log_prob.detach()
        vs, advantage = (torch.tensor(x) for x in vtrace(
            batch["log_prob"], target.numpy(), batch["discount"], batch["reward"], value.detach().numpy(), following))
        ratio = (log_prob - t["log_prob"]).exp()
        if not clip:
            policy_loss = -(advantage * log_prob)[real].mean()
        else:
            surrogate, kept = ratio, advantage
            if target_interval:
                surrogate = ratio * torch.clamp((t["log_prob"] - old_log_prob).exp(), max=2)
            else:
                kept = advantage / torch.clamp(ratio.detach(), max=1)
            limited = torch.clamp(surrogate, 1 - clip, 1 + clip)
            policy_loss = -torch.minimum(surrogate * kept, limited * kept)[real].mean()
            for edge in (1 - clip, 1 + clip):  # so that rounding cannot take the other branch
                assert (surrogate - edge).abs().min() > 1e-5
            clips += int((limited * kept < surrogate * kept)[real].sum())
        value_loss = ((value - vs) ** 2)[real].mean()
        entropy_mean = entropy[real].mean()
        kl = (ratio - 1 - (log_prob - t["log_prob"]))[real].mean()
        loss = policy_loss - 0.01 * entropy_mean + 0.5 * value_loss
        norm = clipped_step(optimizer, net.parts(), loss, 0.5)
        out["steps"].append({"policy_loss": policy_loss.item(), "value_loss": value_loss.item(), "loss": loss.item(),
                             "entropy": entropy_mean.item(), "kl": kl.item(), "grad_norm": norm})
        if target_interval and (step + 1) % target_interval == 0:
            copy_to(old, net)
    assert not clip or clips > 0
    return {**out, "params_after": flat(net.parts())}


def dqn(random, dueling, double, huber, weighted):
    rows = 24
    net, target = (Mlp(random, [INPUTS, 8, 8, ACTIONS + dueling], torch.relu) for _ in range(2))
    batch = {"obs": uniform(random, (rows, INPUTS), -2, 2), "action": random.integers(ACTIONS, size=rows),
             "next_obs": uniform(random, (rows, INPUTS), -2, 2), "reward": uniform(random, rows, -2, 2),
             "discount": numpy.where(random.random(rows) < 0.2, 0, float(numpy.float32(0.99)))}
    if weighted:
        batch["weight"] = uniform(random, rows, 0.1, 1)
    t = {name: torch.tensor(column) for name, column in batch.items()}
    settings = {"learning_rate": 5e-4, "adam_epsilon": 1e-5, "max_grad_norm": 1, "target_interval": 2,
                "target_tau": 0.5, "dueling": dueling, "double": double, "huber": huber}

    def values(network, obs):
        y = network(obs)
        return y[:, :1] + y[:, 1:] - y[:, 1:].mean(1, keepdim=True) if dueling else y

    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, eps=1e-5)
    out = {"algorithm": "dqn", "settings": settings, "batch": batch, "params": flat(net.parameters()),
           "target": flat(target.parameters()), "steps": []}
    for step in range(STEPS):
        with torch.no_grad():
            of_target = values(target, t["next_obs"])
            best = (values(net, t["next_obs"]) if double else of_target).argmax(1, keepdim=True)
            wanted = t["reward"] + t["discount"] * of_target.gather(1, best)[:, 0]
        q = values(net, t["obs"]).gather(1, t["action"][:, None])[:, 0]
        if huber:
            each = nn.functional.smooth_l1_loss(q, wanted, reduction="none")
        else:
            each = (q - wanted) ** 2
        loss = (each * t["weight"] if weighted else each).mean()
        errors = plain((wanted - q).abs())
        norm = clipped_step(optimizer, list(net.parameters()), loss, 1)
        out["steps"].append({"loss": loss.item(), "td_error": float(numpy.mean(errors)), "q": q.mean().item(),
                             "target": wanted.mean().item(), "grad_norm": norm, "td_errors": errors})
        if (step + 1) % 2 == 0:
            for theirs, ours in zip(target.parameters(), net.parameters()):
                theirs.data += 0.5 * (ours.data - theirs.data)
    return {**out, "params_after": flat(net.parameters()), "target_after": flat(target.parameters())}


def box_muller(generator, count):
    """Two uniform numbers of NumPy's generator make a normal one."""
    u = generator.random(2 * count).reshape(count, 2)
    return numpy.sqrt(-2 * numpy.log(1 - u[:, 0])) * numpy.cos(2 * math.pi * u[:, 1])


def squashed(outputs, noise):
    """tanh(mean + std * noise) and its log-probability, by the form that does not cancel."""
    mean, log_std = outputs.chunk(2, 1)
    log_std = torch.clamp(log_std, -20, 2)
    u = mean + log_std.exp() * noise
    correction = 2 * (math.log(2) - u - nn.functional.softplus(-2 * u))
    return torch.tanh(u), (-noise ** 2 / 2 - log_std - math.log(2 * math.pi) / 2 - correction).sum(1)


def sac(random, fixed):
    rows, size, seed = 24, 2, 5
    low, high = numpy.array([-2.0, 1.0]), numpy.array([2.0, 9.0])
    actor = Mlp(random, [INPUTS, 8, 8, 2 * size], torch.relu)
    critics, targets = ([Mlp(random, [INPUTS + size, 8, 8, 1], torch.relu) for _ in range(2)] for _ in range(2))
    unit = uniform(random, (rows, size), -0.95, 0.95)
    batch = {"obs": uniform(random, (rows, INPUTS), -2, 2), "next_obs": uniform(random, (rows, INPUTS), -2, 2),
             "action": (low + (unit + 1) / 2 * (high - low)).astype(numpy.float32).astype(float),
             "reward": uniform(random, rows, -2, 2),
             "discount": numpy.where(random.random(rows) < 0.2, 0, float(numpy.float32(0.99)))}
    t = {name: torch.tensor(column) for name, column in batch.items()}
    taken = torch.tensor(2 * (batch["action"] - low) / (high - low) - 1)
    log_alpha = torch.tensor(math.log(0.5), requires_grad=True)
    settings = {"learning_rate": 3e-4, "adam_epsilon": 1e-5, "tau": 0.01, "generator_seed": seed, "fixed_alpha": fixed,
                "first_alpha": 0.5, "target_entropy": -2, "low": low, "high": high}
    both = [p for one in critics for p in one.parameters()]
    of_targets = [p for one in targets for p in one.parameters()]
    of_actor = list(actor.parameters())
    optimizers = [torch.optim.Adam(p, lr=3e-4, eps=1e-5) for p in ([log_alpha], both, of_actor)]
    out = {"algorithm": "sac", "settings": settings, "batch": batch, "params": flat(of_actor), "critics": flat(both),
           "targets": flat(of_targets), "steps": []}
    generator = numpy.random.Generator(numpy.random.PCG64(numpy.random.SeedSequence(seed)))

    def q(networks, obs, action):
        return [one(torch.cat([obs, action], 1))[:, 0] for one in networks]

    for _ in range(STEPS):
        # Row by row: for the action in obs, then for that in next_obs.
        noise = torch.tensor(box_muller(generator, 2 * rows * size).reshape(rows, 2, size))
        alpha = fixed if fixed is not None else log_alpha.exp().item()
        action, log_prob = squashed(actor(t["obs"]), noise[:, 0])
        alpha_loss = -(log_alpha * (log_prob.detach() - 2)).mean()
        with torch.no_grad():
            next_action, next_log_prob = squashed(actor(t["next_obs"]), noise[:, 1])
            wanted = t["reward"] + t["discount"] * (torch.minimum(*q(targets, t["next_obs"], next_action))
                                                    - alpha * next_log_prob)
        seen = q(critics, t["obs"], taken)
        errors = plain(sum((one - wanted).abs() for one in seen) / 2)
        critic_loss = sum(nn.functional.mse_loss(one, wanted) for one in seen)
        told_alpha_loss = 0.0 if fixed is not None else alpha_loss.item()
        if fixed is None:
            clipped_step(optimizers[0], [log_alpha], alpha_loss, math.inf)
        clipped_step(optimizers[1], both, critic_loss, math.inf)
        actor_loss = (alpha * log_prob - torch.minimum(*q(critics, t["obs"], action))).mean()
        clipped_step(optimizers[2], of_actor, actor_loss, math.inf)
        for theirs, ours in zip(of_targets, both):
            theirs.data += 0.01 * (ours.data - theirs.data)
        out["steps"].append({"critic_loss": critic_loss.item(), "actor_loss": actor_loss.item(), "alpha": alpha,
                             "alpha_loss": told_alpha_loss, "entropy": -log_prob.mean().item(),
                             "target": wanted.mean().item(), "td_errors": errors})
    return {**out, "params_after": flat(of_actor), "critics_after": flat(both), "targets_after": flat(of_targets),
            "log_alpha_after": log_alpha.item()}


def philox4x32(counter, key):
    """Ten rounds (Salmon et al., 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def direction(job, update, number, count):
    """Named by the run's seed, the update and the number within it."""
    words = philox4x32([number, 0xFFFFFFFF, 0, update], [job & 0xFFFFFFFF, job >> 32])
    generator = numpy.random.Generator(numpy.random.PCG64(numpy.random.SeedSequence(words[0] << 32 | words[1])))
    return box_muller(generator, count).astype(numpy.float32).astype(float)


def ars(random, directions, top):
    """A linear policy; its value's parameters are not searched."""
    job, count = (7 << 32) + 11, ACTIONS * INPUTS + ACTIONS
    params = uniform(random, count, -0.5, 0.5)
    settings = {"learning_rate": 0.02, "directions": directions, "top": top, "seed": str(job)}
    out = {"algorithm": "ars", "settings": settings, "params": params.copy(), "steps": []}
    for update in range(STEPS):
        returns = numpy.round(random.uniform(10, 200, (directions, 2)))
        best = numpy.argsort(-returns.max(1), kind="stable")[:top]
        deviation = returns[best].std()
        change = sum((returns[i, 0] - returns[i, 1]) * direction(job, update, int(i), count) for i in best)
        change = change * 0.02 / (top * deviation + 1e-6)
        params = params + change
        out["steps"].append({"returns": returns, "return_deviation": float(deviation),
                             "best_return": float(returns.max()), "step_norm": float(numpy.linalg.norm(change))})
    return {**out, "params_after": params}


def main():
    cases = [("a2c", a2c, 0, False), ("a2c, normalized advantages, numbers", a2c, 2, True), ("bc", bc, 0),
             ("bc, numbers", bc, 2), ("impala", impala, 0, 0), ("impala, clipped surrogate", impala, 0.2, 0),
             ("appo", impala, 0.2, 2), ("dqn", dqn, 0, True, True, False),
             ("dqn, dueling, plain target, squares, weights", dqn, 1, False, False, True), ("sac", sac, None),
             ("sac, fixed temperature", sac, 0.2), ("ars", ars, 6, 6), ("ars, the best", ars, 6, 3)]
    updates = []
    for number, (name, make, *more) in enumerate(cases):
        updates.append({"name": name, **make(numpy.random.default_rng(100 + number), *more)})
    content = {"format": "rl-golden-1",
               "versions": {"python": sys.version.split()[0], "numpy": numpy.__version__, "torch": torch.__version__,
                            "stable_baselines3": stable_baselines3.__version__},
               "updates": updates}
    path = os.path.join(sys.argv[1], "updates.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(content, default=plain, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
