"""What members of consumer groups (KIP-848) subscribe to, and as what they come back: we answer the same requests as
Apache Kafka does, and leave the same records."""

from __future__ import annotations

from itertools import product

from support.offset_requests import commit, fetch
from support.oracle.consumer_cast import ConsumerCast, consumer_cast
from support.transcript import SameAnswers, Transcript


def test_topics_change(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, t=2, u=2) as cast:
            cast.join("joins", "a", "t", "v")
            cast.note_records("records of the first")
            cast.grow("t", 4)
            cast.describe("before a heartbeat")
            cast.beat("a topic has grown", "a")
            cast.describe("after it")
            cast.step("once more", "a")
            cast.create(v=1)
            cast.beat("a topic has come", "a")
            cast.step("after that", "a")
            cast.grow("u", 3)
            cast.beat("a topic that no member reads has grown", "a")
            cast.delete_topic("v")
            cast.beat("a topic has gone", "a")
            cast.step("after it has gone", "a")
            cast.describe("in the end")
            cast.note_records("records of all that")

    same_answers(script)


def test_subscriptions_change(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        for assignor in ("range", "uniform"):
            with consumer_cast(transcript, f"-{assignor}", t=4, u=2) as cast:
                cast.join("a", "a", "t", "u", server_assignor=assignor)
                cast.beat("the same in another order", "a", names=["u", "t"])
                cast.beat("the same twice", "a", names=["u", "t", "u"])
                cast.note_records("records of the beginning")
                cast.beat("no topics", "a", names=[])
                cast.describe("it has unsubscribed")
                cast.beat("another heartbeat", "a")
                cast.step("it has given up all", "a")
                cast.describe("it has nothing")
                cast.beat("a topic that does not exist", "a", names=["none"])
                cast.beat("topics again", "a", names=["t"])
                cast.join("b", "b", "t", "u")
                cast.settle("with two", "a", "b")
                cast.describe("with two: described")
                cast.beat("b does without a topic", "b", names=["u"], owned=cast.assigned["b"])
                cast.describe("b is to give up")
                cast.settle("b without it", "b", "a")
                cast.note_records("records of the rest")

    same_answers(script)


def test_expressions(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, red=2, reed=1, bread=1) as cast:
            all_red = f"{cast.group}-r.*d"
            cast.join("by an expression", "a", regex=all_red, server_assignor="range")
            cast.until_epoch(2)
            cast.describe("resolved")
            cast.note_records("records of the first", by_batch=False)
            cast.beat("with topics", "a")
            cast.note_records("records of its assignment")
            cast.beat("the same expression", "a", regex=all_red)
            cast.join("b, too", "b", regex=all_red, server_assignor="range")
            cast.settle("with two", "a", "b")
            cast.beat("a by names instead", "a", regex="", names=["bread"], owned=cast.assigned["a"])
            cast.settle("one by names", "a", "b")
            cast.describe("one by names: described")
            cast.beat("both, names and an expression", "a", regex=all_red, owned=cast.assigned["a"])
            cast.settle("one by both", "a", "b")
            cast.note_records("records of two")
            cast.beat("b does without", "b", regex="", owned=cast.assigned["b"])
            cast.settle("b without", "a", "b")
            cast.leave("the last one that has it leaves", "a")
            cast.note_records("records of the end")
            cast.describe("in the end")

    same_answers(script)


def test_expressions_that_are_none(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, t=1) as cast:
            for regex in ("(", "[", "*", "a{2,1}", "(?=a)", "(a)\\1", "a(?!b)", "\\", "(?P<n", "a**", "x{1001}"):
                cast.join(f"joins with {regex}", "a", regex=regex)
            cast.describe("no group has come of it")
            cast.join("by name", "a", "t")
            cast.beat("an expression that is none", "a", regex="(")
            cast.beat("without it", "a")
            cast.note_records("records")

    same_answers(script)


def test_static_members(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, t=4) as cast:
            cast.join("i", "i1", "t", instance_id="i")
            cast.join("j", "j1", "t", instance_id="j")
            cast.settle("two", "i1", "j1")
            cast.note_records("records of two")
            cast.join("another one as i", "i2", "t", instance_id="i")
            cast.join("i itself joins", "i1", "t", instance_id="i")
            cast.join("i without the instance id", "i1", "t")
            cast.beat("i as j", "i1", instance_id="j")
            cast.beat("i as an unknown one", "i1", instance_id="k")
            cast.beat("a stranger as i", "x", 3, instance_id="i")
            cast.leave("a stranger leaves for i", "x", instance_id="i")
            cast.leave("a stranger is away for i", "x", -2, instance_id="i")
            cast.leave("i is away as an unknown one", "i1", -2, instance_id="k")
            cast.note_records("no records")
            cast.epochs["i1"] = -2
            cast.leave("i is away", "i1", -2, instance_id="i")
            cast.describe("i is away: described")
            cast.note_records("records of that")
            cast.beat("i while it is away", "i1", 3, instance_id="i")
            cast.step("j while i is away", "j1", instance_id="j")
            cast.join("i comes back with another id", "i2", "t", instance_id="i")
            cast.describe("i is back: described")
            cast.note_records("records of its return")
            cast.beat("its old self", "i1", 3, instance_id="i")
            cast.beat("its old self by id", "i1", 3)
            cast.step("its new self", "i2", instance_id="i")
            cast.leave("i is away again", "i2", -2, instance_id="i")
            cast.join("i comes back with the same id", "i2", "t", instance_id="i")
            cast.note_records("records of its return as itself")
            cast.leave("i leaves", "i2", instance_id="i")
            cast.join("a dynamic member becomes", "d", "t")
            cast.join("a dynamic member becomes a static one", "d", "t", instance_id="i")
            cast.settle("three of them", "d", "j1")
            cast.describe("in the end")
            cast.note_records("records of the end")

    same_answers(script)


def test_a_static_member_comes_back_otherwise(same_answers: SameAnswers) -> None:
    """With another subscription, in the middle of a rebalance, and after partitions were added."""

    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, "-topics", t=2, u=2) as cast:
            cast.join("i", "i1", "t", instance_id="i")
            cast.leave("i is away", "i1", -2, instance_id="i")
            cast.join("i comes back with other topics", "i2", "u", instance_id="i", rack_id="r")
            cast.step("it goes on", "i2", instance_id="i")
            cast.describe("in the end")
            cast.note_records("records")
        with consumer_cast(transcript, "-more", t=2) as cast:
            cast.join("i", "i1", "t", instance_id="i")
            cast.leave("i is away", "i1", -2, instance_id="i")
            cast.grow("t", 3)
            cast.join("i comes back", "i2", "t", instance_id="i")
            cast.step("it goes on", "i2", instance_id="i")
            cast.note_records("records")
        with consumer_cast(transcript, "-rebalance", t=4) as cast:
            cast.join("i", "i1", "t", instance_id="i")
            cast.join("b", "b", "t")
            cast.beat("i is told to give up", "i1", instance_id="i")
            cast.leave("i is away", "i1", -2, instance_id="i")
            cast.describe("i is away: described")
            cast.step("b waits", "b")
            cast.join("i comes back", "i2", "t", instance_id="i")
            cast.settle("both", "i2", "b")
            cast.note_records("records")

    same_answers(script)


def test_the_preferred_assignor(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, t=7, u=5) as cast:
            for name in "abcde":
                instance = {"instance_id": f"i{name}"} if name in "ce" else {}
                topics = ("t",) if name == "d" else ("t", "u")
                cast.join(f"{name} joins", name, *topics, server_assignor="range", **instance)
            cast.settle("five", *"abcde")
            cast.describe("by range")
            cast.leave("c leaves", "c", instance_id="ic")
            cast.settle("four", *"abde")
            cast.describe("four by range")
            cast.note_records("records")

    same_answers(script)


def committed(
    cast: ConsumerCast, what: str, version: int, epoch: int, member: str, *places: int, topic: str = "t"
) -> None:
    named = cast.transcript.topic_ids[cast.full(topic)] if version >= 10 else cast.full(topic)
    request = commit(cast.group, named, *places, generation=epoch, member_id=member)
    cast.ask(f"commit of {what}", request, version)


def test_offsets(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with consumer_cast(transcript, t=4, u=1) as cast:
            for version, (epoch, member) in product(range(5, 11), ((0, ""), (3, "x"))):
                committed(cast, f"no group at {epoch}", version, epoch, member, 0)
            cast.join("a", "a", "t", server_assignor="range")
            cast.join("b", "b", "t")
            cast.settle("two", "a", "b")
            cast.join("c", "c", "t")
            cast.settle("three", "a", "b", "c")
            cast.describe("three: described")
            cast.note_records("records of the members")
            for version in range(5, 11):
                for epoch in (-1, 0, 1, 2, 3, 4, 5, 9):
                    for member, places in product(("a", "b", "x", ""), ((0,), (1, 2), (3,))):
                        committed(cast, f"{places} by {member!r} at {epoch}", version, epoch, member, *places)
            committed(cast, "a topic that it does not read", 9, cast.epochs["a"], "a", 0, topic="u")
            for version in range(8, 11):
                named = cast.transcript.topic_ids[cast.full("t")] if version >= 10 else cast.full("t")
                for member, epoch in product(("a", "x", "", None), (-1, 0, 1, 3, 4, 5)):
                    asked = fetch(cast.group, [(named, range(4))], version, member_id=member, member_epoch=epoch)
                    cast.ask(f"fetched by {member!r} at {epoch}", asked, version)
            cast.note_records("records of offsets")
            for member in "abc":
                cast.leave(f"{member} leaves", member)
            for version in (8, 9, 10):
                committed(cast, "an empty group", version, -1, "", 0)
                committed(cast, "an empty group at 2", version, 2, "a", 0)
            cast.note_records("records of the end")

    same_answers(script)
