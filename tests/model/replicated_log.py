"""Model one Kafka partition with three replicas, to test the judge.

The model follows Kafka's rules (KIP-101, KIP-279, KIP-497, KIP-966) and imports nothing of this project, so as not to
repeat a mistake of the judge. A script of steps drives it, tick by tick; a ``History`` has what a prober, clients, the
controller and the brokers' files would record. A ``flaw`` violates exactly one rule.

Simplifications: offsets start at 0 and nothing is deleted; a disconnected broker reaches neither brokers nor the
controller, but clients and the prober reach it; each producer has one batch in flight.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from tests.model.clients import give_up, polled, read, send
from tests.model.parts import (
    BROKERS,
    DRAIN,
    LAG_NS,
    MS,
    NOBODY,
    REST_TICKS,
    SESSION_NS,
    TICK_NS,
    Batch,
    History,
    Producer,
    Reader,
    Remote,
    Replica,
    Reply,
    Sending,
    State,
    Step,
)


class Partition:
    """The partition, its controller and its clients at one time; ``assigned`` has the preferred leader first."""

    def __init__(
        self,
        producers: Iterable[Producer],
        readers: Iterable[Reader] = (),
        *,
        assigned: tuple[int, ...] = BROKERS,
        effective_min_isr: int = 2,
        strict_min_isr: bool = True,
        flaw: str = "",
    ) -> None:
        self.now = self.ticks = 0
        self.flaw, self.assigned = flaw, assigned
        self.replicas = {broker_id: Replica(broker_id) for broker_id in BROKERS}
        self.history = History(list(producers), effective_min_isr, strict_min_isr)
        self.producers = {producer.name: producer for producer in self.history.producers}
        self.heard = dict.fromkeys(BROKERS, 0)
        self.fenced: set[int] = set()
        self.lose_answers = 0
        self.readers = list(readers) or [Reader()]
        self.state = State(0, assigned[0], 0, 0, frozenset(BROKERS))
        self.history.states.append(self.state)
        for replica in self.replicas.values():
            self._learn(replica)

    # --- the script ---------------------------------------------------------------------------------

    def play(self, steps: Iterable[Step]) -> History:
        """Perform every step, heal everything, wait for rest, and read everything again."""
        self.capture("before")
        for verb, whom, amount in steps:
            self.act(verb, whom, amount)
            self.tick()
        self.heal()
        for _ in range(REST_TICKS):
            self.tick()
        self.capture("after")
        self.finish()
        return self.history

    def act(self, verb: str, whom: int, amount: int) -> None:
        getattr(self, f"_{verb}")(self.replicas[BROKERS[whom % 3]], whom, amount)

    def heal(self) -> None:
        for replica in self.replicas.values():
            for heal in (self._resume, self._restart, self._join, self._fast):
                heal(replica, 0, 0)

    def _write(self, _: Replica, whom: int, amount: int) -> None:
        producer = self.history.producers[whom % len(self.history.producers)]
        for size in range(1, amount + 1):
            seqs = tuple(islice(producer.numbers, size))
            producer.queue.append(Sending(producer.name, seqs, self.now))

    def _poll(self, _: Replica, whom: int, __: int) -> None:
        reader = self.readers[whom % len(self.readers)]
        source = self.replicas[reader.source]
        if not source.up or not (source.paused or source.leads):
            reader.source = self.state.leader if self.state.leader != NOBODY else reader.source
        elif source.runs:
            read(self, reader, source)

    def _poll_follower(self, replica: Replica, _: int, amount: int) -> None:
        if replica.runs and replica.told is not None:
            read(self, self.readers[amount % len(self.readers)], replica)

    def _wait(self, _: Replica, __: int, amount: int) -> None:
        for _tick in range(3 * amount):
            self.tick()

    def _lose_answer(self, _: Replica, __: int, ___: int) -> None:
        self.lose_answers = 1

    def _slow(self, replica: Replica, _: int, __: int) -> None:
        replica.slow = True

    def _fast(self, replica: Replica, _: int, __: int) -> None:
        replica.slow = False

    def _cut(self, replica: Replica, _: int, __: int) -> None:
        replica.cut = True

    def _join(self, replica: Replica, _: int, __: int) -> None:
        replica.cut = False

    def _kill(self, replica: Replica, _: int, __: int) -> None:
        if replica.up:
            self._fault(replica)
            self._exit(replica)

    def _stop(self, replica: Replica, _: int, __: int) -> None:
        """Stop with SIGTERM: the controller first moves leadership and ISR, and the high watermark is checkpointed."""
        if replica.runs and not replica.cut and replica.told is not None:
            self._fault(replica)
            self._leave(replica.broker_id)
            replica.checkpoint = replica.hw
            self._exit(replica)

    def _exit(self, replica: Replica) -> None:
        replica.up = replica.paused = replica.starting = False
        replica.told = replica.reply = replica.proposal = None
        replica.unread = []

    def _restart(self, replica: Replica, _: int, __: int) -> None:
        replica.starting = not replica.up

    def _pause(self, replica: Replica, _: int, __: int) -> None:
        if replica.runs:
            self._fault(replica)
            replica.paused = True

    def _resume(self, replica: Replica, _: int, __: int) -> None:
        if replica.paused:
            replica.paused = False
            self._healed(replica)

    def _move(self, _: Replica, __: int, ___: int) -> None:
        preferred = self.assigned[0]
        if self.state.leader not in {preferred, NOBODY} and preferred in self.state.isr - self.fenced:
            self._decide(preferred, self.state.isr)

    def _fault(self, replica: Replica) -> None:
        self._healed(replica)
        self.history.faults.append([replica.broker_id, self.now, self._later(), 2**63 - 1])

    def _healed(self, replica: Replica) -> None:
        for fault in self.history.faults:
            if fault[0] == replica.broker_id:
                fault[3] = min(fault[3], self.now)

    # --- time -----------------------------------------------------------------------------------------

    def _later(self) -> int:
        self.now += MS
        return self.now

    def tick(self) -> None:
        """Advance all parts by 100 ms; the probed broker changes from tick to tick."""
        begun = self.now
        self.ticks += 1
        self._each(self._deliver, self._fetch)
        self._probe(0)
        self._each(self._keep_isr)
        self._rule()
        self._each(self._take_late_requests)
        self._probe(1)
        for producer in self.history.producers:
            send(self, producer)
        self._probe(2)
        if self.ticks % 3 == 0:
            self._each(self._view)
            self.capture("in between")
        if self.ticks % 5 == 0:
            self._each(self._write_checkpoint)
        self.now = max(begun + TICK_NS, self._later())

    def _each(self, *works: Any) -> None:
        turn = self.ticks % 3
        for broker_id in (*BROKERS[turn:], *BROKERS[:turn]):
            for work in works:
                if self.replicas[broker_id].runs:
                    self._later()
                    work(self.replicas[broker_id])

    def _write_checkpoint(self, replica: Replica) -> None:
        replica.checkpoint = replica.hw

    # --- replication ----------------------------------------------------------------------------------

    def _fetch(self, follower: Replica) -> None:
        told = follower.told
        if told is None or told.leader in {NOBODY, follower.broker_id} or (follower.slow and self.ticks % 8):
            return
        leader = self.replicas[told.leader]
        reachable = leader.runs and not leader.cut and not follower.cut
        if not reachable or not leader.leads or leader.told is None or leader.told.epoch != told.epoch:
            return
        last = follower.epochs[-1][0] if follower.epochs else None
        if last is not None:
            found, end = leader.end_of(last)
            if found < last or end < follower.leo:
                follower.reply = Reply(told.epoch, diverges=(found, end))
                return
        hw = leader.hw  # before this request's offset counts
        self._hear(leader, follower)
        missing = [batch for batch in leader.log if batch.base >= follower.leo]
        follower.reply = Reply(told.epoch, hw, tuple(missing[:1] if follower.slow else missing))

    def _deliver(self, follower: Replica) -> None:
        reply, follower.reply = follower.reply, None
        if reply is None or follower.told is None or reply.epoch != follower.told.epoch or follower.leads:
            return
        if reply.diverges is not None:
            epoch, end = reply.diverges
            found, own_end = follower.end_of(epoch)
            cut_to = min(own_end, follower.leo) if found != epoch else min(own_end, end, follower.leo)
            follower.truncate(cut_to - 3 if self.flaw == "truncates_below_hw" else cut_to)
            return
        for batch in reply.batches:
            follower.append(batch)
        hw = follower.leo if self.flaw == "follower_hw_is_leo" else reply.hw
        if self.flaw == "follower_hw_falls" and self.ticks % 2:
            hw -= 1
        follower.hw = max(0, min(hw, follower.leo))

    def _hear(self, leader: Replica, follower: Replica) -> None:
        """Record a fetch: the follower has everything below its offset."""
        known = leader.remote[follower.broker_id]
        caught_up_ns = known.caught_up_ns
        if follower.leo >= leader.leo:
            caught_up_ns = self.now
        elif follower.leo >= known.leader_leo:
            caught_up_ns = max(caught_up_ns, known.fetched_ns)
        leader.remote[follower.broker_id] = Remote(follower.leo, leader.leo, self.now, caught_up_ns)
        caught_up = follower.leo >= leader.hw and follower.leo >= leader.epoch_start
        may = follower.broker_id not in self.fenced and leader.proposal is None and leader.told is not None
        if may and follower.broker_id not in leader.isr and (caught_up or self.flaw == "joins_behind"):
            leader.joining = frozenset({follower.broker_id})
            leader.proposal = leader.told.partition_epoch, leader.isr | leader.joining
        if follower.leo != known.leo:
            self._raise_hw(leader)

    def _raise_hw(self, leader: Replica) -> None:
        if self.flaw == "hw_ignores_followers":
            leader.hw = leader.leo
        strict = self.history.strict_min_isr and self.flaw != "hw_ignores_min_isr"
        stuck = self.flaw == "new_leaders_hw_stays" and leader.told is not None and leader.told.epoch > 0
        if stuck or (strict and len(leader.isr) < self.history.effective_min_isr):
            return
        waits = [leader.remote[b].leo for b in leader.isr | leader.joining if b != leader.broker_id]
        if self.flaw == "joins_behind":
            waits = [leo for leo in waits if leo >= leader.hw]
        for broker_id, remote in leader.remote.items():
            recent = remote.leo == leader.leo or self.now - remote.caught_up_ns <= LAG_NS
            if remote.leo >= 0 and recent and broker_id not in self.fenced:  # it will soon be back
                waits.append(remote.leo)
        leader.hw = max(leader.hw, min([leader.leo, *waits]))

    def _keep_isr(self, leader: Replica) -> None:
        """Propose, every half of the lag time, an ISR without members that were not at the log's end in that time."""
        if leader.told is None or not leader.leads or self.ticks % 5 or leader.proposal is not None:
            return
        late = {
            b
            for b, remote in leader.remote.items()
            if b in leader.isr and remote.leo != leader.leo and self.now - remote.caught_up_ns > LAG_NS
        }
        if late and self.flaw != "never_evicts":
            leader.proposal = leader.told.partition_epoch, leader.isr - late

    # --- the controller -------------------------------------------------------------------------------

    def _rule(self) -> None:
        for broker_id, replica in self.replicas.items():
            if replica.starting and broker_id in self.fenced:
                self._boot(replica)
            if replica.runs and not replica.cut:
                self.heard[broker_id] = self.now
                self._unfence(broker_id)
            elif broker_id not in self.fenced and self.now - self.heard[broker_id] > SESSION_NS:
                self._expire(broker_id)
            if replica.leads and replica.runs and not replica.cut and replica.proposal is not None:
                self._answer_proposal(replica)
        self._each(self._publish)

    def _boot(self, replica: Replica) -> None:
        replica.starting, replica.up = False, True
        replica.incarnation += 1
        self.history.starts.append((replica.broker_id, replica.incarnation, self.now))
        replica.hw = min(replica.checkpoint, replica.leo) + (5 if self.flaw == "boots_above_its_log" else 0)
        self._healed(replica)
        self._line(replica, "log_loaded", high_watermark=replica.hw)

    def _unfence(self, broker_id: int) -> None:
        self.fenced.discard(broker_id)
        if self.state.leader == NOBODY:
            self._elect(self.state.isr)

    def _expire(self, broker_id: int) -> None:
        if self.flaw == "never_evicts" and self.state.leader != broker_id:
            return
        self._leave(broker_id)

    def _leave(self, broker_id: int) -> None:
        """Remove a broker from the ISR unless it is the last member; if it led, elect another member."""
        self.fenced.add(broker_id)
        isr = self.state.isr - {broker_id} or self.state.isr
        if self.state.leader == broker_id:
            self._elect(isr)
        elif isr != self.state.isr:
            self._decide(self.state.leader, isr)

    def _elect(self, isr: frozenset[int]) -> None:
        eligible = [b for b in self.assigned if b in isr and b not in self.fenced]
        if self.flaw == "elects_last":
            eligible = eligible[::-1]
        if self.flaw == "elects_outsiders":
            outsiders = [b for b in self.assigned if b not in self.state.isr and b not in self.fenced]
            if outsiders:
                eligible, isr = outsiders, frozenset(outsiders[:1])
        leader = eligible[0] if eligible else NOBODY
        if (leader, isr) != (self.state.leader, self.state.isr):
            self._decide(leader, isr)

    def _decide(self, leader: int, isr: frozenset[int]) -> None:
        epoch = self.state.epoch + (leader != self.state.leader)
        if self.flaw == "epoch_stays":
            epoch = self.state.epoch
        if self.flaw == "epoch_falls" and leader != self.state.leader:
            epoch = self.state.epoch - 1
        skipped = self.flaw == "partition_epoch_skips"
        self.state = State(self._later(), leader, epoch, self.state.partition_epoch + 1 + skipped, isr)
        self.history.states.append(self.state)

    def _answer_proposal(self, leader: Replica) -> None:
        assert leader.proposal is not None
        (known, isr), leader.proposal = leader.proposal, None
        current = leader.told is not None and leader.told.epoch == self.state.epoch
        if current and known == self.state.partition_epoch and not isr & self.fenced:
            self._decide(self.state.leader, isr)
            self._learn(leader)
        leader.joining = frozenset()

    def _publish(self, replica: Replica) -> None:
        """Deliver a decision to a broker; one of the brokers gets it a tick later."""
        late = self.now - self.state.t_ns < TICK_NS // 2 and replica.broker_id % 3 == self.state.partition_epoch % 3
        if not replica.cut and not late and (replica.told is None or replica.told != self.state):
            self._learn(replica)

    def _learn(self, replica: Replica) -> None:
        before, replica.told = replica.told, self.state
        replica.proposal, replica.joining = None, frozenset()
        new_epoch = before is None or (before.epoch, before.leader) != (self.state.epoch, self.state.leader)
        if replica.leads:
            replica.isr = self.state.isr
            if new_epoch:
                self._lead(replica)
            if self.flaw != "hw_waits_for_appends" or new_epoch:
                self._raise_hw(replica)
        elif new_epoch:
            self._line(replica, "follower_started", **self._offsets(replica))

    def _lead(self, replica: Replica) -> None:
        replica.epoch_start = replica.leo
        replica.begin_epoch(self.state.epoch, replica.leo)
        replica.remote = {
            b: Remote(caught_up_ns=self.now if b in self.state.isr else -LAG_NS)
            for b in BROKERS
            if b != replica.broker_id
        }
        self._line(replica, "leader_started", **self._offsets(replica))

    # --- clients --------------------------------------------------------------------------------------

    def _append(self, leader: Replica, sending: Sending) -> bool:
        """Return whether a broker accepted the batch; a repeated idempotent one gets the first one's answer."""
        acks = self.producers[sending.producer].acks
        if not leader.leads or leader.told is None or (acks == "all" and self._is_short(leader)):
            return False
        own = [b for b in leader.log if b.producer == sending.producer and b.producer_epoch >= 0]
        sent = sending.producer_epoch, sending.base_sequence
        known = next((b for b in own if (b.producer_epoch, b.base_sequence) == sent), None)
        if own and own[-1].producer_epoch > sending.producer_epoch >= 0:
            return False
        if known is None or self.flaw == "appends_twice":
            epoch = leader.told.epoch - (self.flaw == "stamps_old_epochs" and leader.told.epoch > 0)
            known = Batch(leader.leo, epoch, sending.producer, sending.seqs, *sent)
            leader.append(known)
            if self.flaw == "appends_plain_batches_twice" and known.base_sequence < 0:
                leader.append(known._replace(base=leader.leo))
            self._raise_hw(leader)
        sending.maybe_written = True
        sending.answer = leader.broker_id, leader.told.epoch, known.base, known.end
        return True

    def _is_short(self, leader: Replica) -> bool:
        return len(leader.isr) < self.history.effective_min_isr and self.flaw != "acknowledges_below_min_isr"

    def _take_late_requests(self, replica: Replica) -> None:
        """Process the requests received while paused; their answers are discarded."""
        late, replica.unread = replica.unread, []
        for sending in late:
            waited_for = sending.in_flight
            self._append(replica, sending)
            if not waited_for:
                sending.answer = None

    # --- observers ------------------------------------------------------------------------------------

    def _probe(self, turn: int) -> None:
        replica = self.replicas[BROKERS[(self.ticks + turn) % 3]]
        sent_ns = self._later()
        if replica.runs and replica.told is not None:
            row = {"broker_id": replica.broker_id, "incarnation": replica.incarnation} | self._offsets(replica)
            row |= {"sent_ns": sent_ns, "received_ns": self._later(), "log_start_offset": 0, "single_reply": True}
            self.history.samples.append(row | {"last_stable_offset": replica.hw})
        else:
            row = {"broker_id": replica.broker_id, "incarnation": replica.incarnation, "error": "unreachable"}
            self.history.silent.append(row | {"sent_ns": sent_ns, "received_ns": self._later()})

    def _offsets(self, replica: Replica) -> dict[str, Any]:
        epoch = None if replica.told is None else replica.told.epoch
        return {"leader_epoch": epoch, "high_watermark": replica.hw, "log_end_offset": replica.leo}

    def _view(self, replica: Replica) -> None:
        if replica.told is not None:
            seen = {"observer": str(replica.broker_id), "leader": replica.told.leader}
            seen |= {"leader_epoch": replica.told.epoch, "isr": sorted(replica.told.isr)}
            self.history.views.append(seen | {"sent_ns": self.now, "received_ns": self._later()})

    def _line(self, replica: Replica, kind: str, **said: Any) -> None:
        line = {"broker_id": replica.broker_id, "kind": kind, "line": len(self.history.lines) + 1, "t_ns": self.now}
        self.history.lines.append(line | said)

    def capture(self, name: str) -> None:
        for replica in self.replicas.values():
            row = {"capture": name, "broker_id": replica.broker_id, "sent_ns": self.now, "received_ns": self._later()}
            row |= {"checkpoint_high_watermark": replica.checkpoint}
            shown = replica.leo if replica.runs else None, replica.hw if replica.runs else None
            self.history.captures.append(row | dict(zip(("log_end_offset", "high_watermark"), shown, strict=True)))

    def finish(self) -> None:
        """Store the final state, and the final drain of the leader's log if there is a leader."""
        history = self.history
        history.leader = self.state.leader
        for broker_id, replica in self.replicas.items():
            history.logs[broker_id] = replica.log
            history.epochs[broker_id] = replica.epochs
            history.high_watermarks[broker_id] = replica.hw
        for producer in history.producers:  # a producer that ends receives nothing more
            for sending in list(producer.queue):
                give_up(self, producer, sending)
        if history.leader == NOBODY:
            return
        last = self.replicas[history.leader]
        history.drain_end = last.hw
        position = 0
        for batch in last.log:
            for n in range(len(batch.seqs)):
                if batch.base + n < last.hw:
                    polled(self, DRAIN, position, batch, n)
                    position += 1
