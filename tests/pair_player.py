"""A play of prefill and decode instances apart, request by request on a clock: what the closed form is held to.

Not here: step times of real kernels, and an instance that does both (clock_player)."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Times in ms. Lengths of prompts and answers are uniform within `spread` of their means, so that nothing locks."""

    users: int
    prompts_per_user: int
    prefill_servers: int
    decode_servers: int
    service_ms: float
    alone_ms: float  # at least the service: what follows it takes no server
    moved_ms: float  # transfer and handover
    output_length: int
    step_ms: Callable[[int], float]  # of so many requests that decode on one server
    spread: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Means over the requests, and the rate while every user was still asking."""

    ttft_ms: float
    tpot_ms: float
    requests_per_s: float
    decoding: float  # requests that decode at once, on all servers together, while every user was still asking


@dataclass(slots=True)
class _Server:
    """A decode server: tokens that each of its requests still has to get."""

    left: dict[int, int] = field(default_factory=dict)
    joining: list[int] = field(default_factory=list)
    busy: bool = False


def play(setting: Setting, seed: int = 0) -> Played:
    """Play every request of every user to its end, the first ones all at once."""
    return _Play(setting, Random(seed)).played()


class _Play:
    def __init__(self, setting: Setting, random: Random) -> None:
        self.one, self.random = setting, random
        self.events: list[tuple[float, int, str, int]] = []
        self.count = 0
        self.free = [True] * setting.prefill_servers
        self.queues: list[list[int]] = [[] for _ in self.free]
        self.place: list[int] = []  # the prefill server that each prompt is given to as it comes
        self.servers = [_Server() for _ in range(setting.decode_servers)]
        self.asked: list[float] = []
        self.first: list[float] = []
        self.done: list[float] = []
        self.tokens: list[int] = []
        self.prompt_share: list[float] = []
        self.user: list[int] = []
        self.rounds = [0] * setting.users
        self.area, self.area_until, self.decoding, self.stopped = 0.0, 0.0, 0, float("inf")

    def played(self) -> Played:
        for user in range(self.one.users):
            self._ask(0.0, user)
        while self.events:
            now, _, kind, number = heapq.heappop(self.events)
            getattr(self, f"_{kind}")(now, number)
        steady = [index for index in range(len(self.asked)) if self.done[index] <= self.stopped]
        begun = max(self.first[index] for index in range(self.one.users))  # the burst is through
        window = [self.done[index] for index in steady if self.done[index] > begun]
        pairs = [(self.done[i] - self.first[i], self.tokens[i] - 1) for i in range(len(self.asked))]
        return Played(
            ttft_ms=sum(f - a for f, a in zip(self.first, self.asked, strict=True)) / len(self.asked),
            tpot_ms=sum(one for one, _ in pairs) / sum(more for _, more in pairs),
            requests_per_s=1e3 * len(window) / (max(window) - begun) if len(window) > 1 else float("nan"),
            decoding=self.area / self.area_until if self.area_until else float("nan"),
        )

    def _share(self) -> float:
        return 1.0 + self.one.spread * (2.0 * self.random.random() - 1.0)

    def _push(self, at: float, kind: str, number: int) -> None:
        self.count += 1
        heapq.heappush(self.events, (at, self.count, kind, number))

    def _ask(self, now: float, user: int) -> None:
        if self.rounds[user] == self.one.prompts_per_user:
            self.stopped = min(self.stopped, now)
            return
        self.rounds[user] += 1
        number = len(self.asked)
        self.asked.append(now)
        self.first.append(0.0)
        self.done.append(0.0)
        self.user.append(user)
        self.tokens.append(max(2, round(self.one.output_length * self._share())))
        self.prompt_share.append(self._share())
        # First requests are dealt out; later ones come at random.
        server = (user if self.rounds[user] == 1 else self.random.randrange(len(self.free))) % len(self.free)
        self.place.append(server)
        self.queues[server].append(number)
        self._start(now, server)

    def _start(self, now: float, server: int) -> None:
        if self.free[server] and self.queues[server]:
            number = self.queues[server].pop(0)
            self.free[server] = False
            share = self.prompt_share[number]
            self._push(now + share * self.one.service_ms, "served", number)
            rest = self.one.alone_ms - self.one.service_ms
            self._push(now + share * self.one.service_ms + rest + self.one.moved_ms, "arrived", number)

    def _served(self, now: float, number: int) -> None:
        self.free[self.place[number]] = True
        self._start(now, self.place[number])

    def _arrived(self, now: float, number: int) -> None:
        place = min(range(len(self.servers)), key=lambda i: len(self.servers[i].left) + len(self.servers[i].joining))
        server = self.servers[place]
        server.joining.append(number)
        if not server.busy:
            self._step(now, place)

    def _count_decoding(self, now: float, change: int) -> None:
        if now <= self.stopped:
            self.area += self.decoding * (now - self.area_until)
            self.area_until = now
        self.decoding += change

    def _step(self, now: float, place: int) -> None:
        """A step begins: whoever has come meanwhile decodes from here on."""
        server = self.servers[place]
        for number in server.joining:
            self.first[number] = now
            server.left[number] = self.tokens[number] - 1
        self._count_decoding(now, len(server.joining))
        server.joining.clear()
        server.busy = bool(server.left)
        if server.busy:
            self._push(now + self.one.step_ms(len(server.left)), "stepped", place)

    def _stepped(self, now: float, place: int) -> None:
        server = self.servers[place]
        ended = []
        for number in server.left:
            server.left[number] -= 1
            if not server.left[number]:
                ended.append(number)
        for number in ended:
            del server.left[number]
            self.done[number] = now
        self._count_decoding(now, -len(ended))
        for number in ended:
            self._ask(now, self.user[number])
        self._step(now, place)
