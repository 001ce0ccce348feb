"""ShareFetch and ShareAcknowledge (KIP-932): members that read to a script get the same records and errors from us and
from Apache Kafka, and both store the same states."""

from __future__ import annotations

from kmini.broker.share_fetch.share_partition import AcknowledgeType
from support.oracle.share_readers import share_readers
from support.transcript import SameAnswers, Transcript

GAP, ACCEPT, RELEASE, REJECT, RENEW = map(int, AcknowledgeType)


def test_records_are_acquired_and_acknowledged(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with share_readers(transcript) as readers:
            readers.note_states("begins", 1)
            readers.produce(4, 6)
            readers.fetch("everything", "a")
            readers.fetch("nothing more", "a")
            readers.fetch("nothing for another", "b")
            readers.acknowledge("some", "a", (0, 1, ACCEPT), (2, 3, RELEASE))
            readers.note_states("after some", 1)
            readers.fetch("what was released", "b")
            readers.acknowledge("each by itself", "a", (4, 7, [REJECT, GAP, ACCEPT, RELEASE]))
            readers.note_states("after each", 1)
            readers.acknowledge("not its own", "a", (2, 3, ACCEPT))
            readers.acknowledge("done already", "a", (0, 1, ACCEPT))
            readers.acknowledge("past all", "a", (20, 21, ACCEPT))
            readers.acknowledge("beyond the end", "a", (8, 12, ACCEPT))
            readers.acknowledge("the rest", "a", (8, 9, ACCEPT))
            readers.fetch("with acknowledgements", "b", acks=[(2, 3, ACCEPT)])
            readers.acknowledge("the last", "b", (7, 7, ACCEPT))
            readers.note_states("at the end", 3)

    same_answers(script)


def test_sessions(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with share_readers(transcript) as readers:
            readers.produce(2)
            readers.fetch("an unknown session", "a", epoch=3)
            readers.acknowledge("acknowledges without a session", "a", (0, 0, ACCEPT), epoch=3)
            readers.fetch("begins with acknowledgements", "a", [(0, 0, ACCEPT)], epoch=0)
            readers.acknowledge("begins by acknowledging", "a", (0, 0, ACCEPT), epoch=0)
            readers.fetch("ends what is not there", "a", epoch=-1)
            readers.fetch("begins", "a")
            readers.fetch("a wrong epoch", "a", epoch=5)
            readers.acknowledge("another wrong epoch", "a", (0, 0, ACCEPT), epoch=0)
            readers.acknowledge("the right one", "a", (0, 0, ACCEPT))
            readers.fetch("begins again", "a", epoch=0)
            readers.fetch("ends", "a", epoch=-1)
            readers.note_states("until the end", 3)
            readers.fetch("another has what is left", "b")
            readers.close("b")
            readers.note_states("after the connection", 1)
            readers.fetch("a third one has it", "c")
            for number, member in enumerate(("", "m" * 37)):
                readers.fetch(f"a bad member id {number}", member)

    same_answers(script)


def test_acknowledgements_that_are_refused(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with share_readers(transcript) as readers:
            readers.produce(4)
            readers.fetch("all", "a")
            readers.acknowledge("ends before it begins", "a", (1, 0, ACCEPT))
            readers.acknowledge("out of order", "a", (2, 3, ACCEPT), (0, 1, ACCEPT))
            readers.acknowledge("no types", "a", (0, 1, []))
            readers.acknowledge("too few types", "a", (0, 2, [ACCEPT, ACCEPT]))
            readers.acknowledge("an unknown type", "a", (0, 0, 5))
            readers.acknowledge("renewed without saying so", "a", (0, 0, RENEW))
            readers.acknowledge("renewed", "a", (0, 0, RENEW), is_renew_ack=True)
            readers.fetch("renewed with limits", "a", [(0, 0, RENEW)], is_renew_ack=True)
            nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
            readers.fetch("renewed in a fetch", "a", [(0, 0, RENEW)], is_renew_ack=True, **nothing)
            readers.acknowledge("one good and one bad", "a", (0, 1, ACCEPT), (2, 9, ACCEPT))
            readers.acknowledge("all of them", "a", (0, 3, ACCEPT))
            readers.note_states("at the end", 2)

    same_answers(script)


def test_the_limits_of_a_fetch(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with share_readers(transcript) as readers:
            readers.produce(3, 3, 3, 3, 3)
            readers.fetch("whole batches", "a", max_records=4)
            readers.fetch("no more than asked for", "b", max_records=2, share_acquire_mode=1)
            readers.fetch("ranges of batches", "a", batch_size=4)
            readers.fetch("nothing", "b")

    same_answers(script)


def test_records_that_are_delivered_often(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        with share_readers(transcript) as readers:
            readers.produce(8, 2)
            for count in (1, 2, 3):
                readers.fetch(f"delivery {count}", "a", max_records=8)
                readers.acknowledge(f"release {count}", "a", (0, 7, RELEASE))
            readers.fetch("in pieces", "a")
            readers.acknowledge("release of a piece", "a", (0, 3, RELEASE))
            readers.fetch("alone", "a")
            readers.acknowledge("release of one", "a", (0, 0, RELEASE))
            readers.fetch("the next", "a")
            readers.note_states("at the end", 6)
        with share_readers(transcript, "-two", share_delivery_count_limit="2") as readers:
            readers.produce(4)
            for count in (1, 2):
                readers.fetch(f"delivery {count}", "a")
                readers.acknowledge(f"release {count}", "a", (0, 3, RELEASE))
            readers.fetch("nothing", "a")
            readers.note_states("at the end", 3)

    same_answers(script)
