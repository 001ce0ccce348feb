"""ACLs, client quotas and SCRAM credentials: we give the same answers as Apache Kafka does."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
)

from support.transcript import SameAnswers, Transcript
from support.until import until


def test_acls(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        anyone = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
        any_of = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        rule = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
        named = {"resource_name": "t", "principal": "User:a", "host": "*"}

        def describe(**changed: int) -> Any:
            return DescribeAclsRequest(**anyone, **{**any_of, **changed})

        def create(*rules: dict[str, int]) -> Any:
            AclCreation = CreateAclsRequest.AclCreation
            return CreateAclsRequest(creations=[AclCreation(**named, **{**rule, **changed}) for changed in rules])

        def delete(*filters: dict[str, int]) -> Any:
            Filter = DeleteAclsRequest.DeleteAclsFilter
            return DeleteAclsRequest(filters=[Filter(**anyone, **{**any_of, **changed}) for changed in filters])

        for version in (2, 3):
            transcript.ask("describe", describe(), version)
            transcript.ask("create", create({}, {}), version)
            transcript.ask("create nothing", create(), version)
            transcript.ask("delete", delete({}, {}), version)
            transcript.ask("delete nothing", delete(), version)
        for field in any_of:
            transcript.ask(f"describe with an unknown {field}", describe(**{field: 0}), 3)
            transcript.ask(f"delete with an unknown {field}", delete({}, {field: 0}), 3)
        for field in rule:
            transcript.ask(f"create with an unknown {field}", create({field: 0}), 3)
        transcript.ask("describe a type of the future", describe(resource_type_filter=99), 3)

    same_answers(script)


def test_client_quotas(same_answers: SameAnswers) -> None:
    Entry = AlterClientQuotasRequest.EntryData
    Component = DescribeClientQuotasRequest.ComponentData

    def script(transcript: Transcript) -> None:
        bob, eve = f"{transcript.topic}-bob", f"{transcript.topic}-eve"

        def alter(what: str, *entries: Any, version: int = 1, validate_only: bool = False) -> None:
            """Each entry: an entity, and its quotas; None removes one."""
            wanted = [
                Entry(
                    entity=[Entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    ops=[Entry.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas],
                )
                for entity, quotas in entries
            ]
            request = AlterClientQuotasRequest(entries=wanted, validate_only=validate_only)
            answer = transcript.ask_quietly(request, version)
            told = {tuple(sorted((e.entity_type, e.entity_name or "") for e in a.entity)): a for a in answer.entries}
            transcript.note(f"{what}, v{version}", [(name, told[name].error_code) for name in sorted(told)])

        def describe(what: str, *filters: tuple[str, int, str | None], version: int = 1, strict: bool = False) -> None:
            components = [Component(entity_type=kind, match_type=how, match=match) for kind, how, match in filters]
            request = DescribeClientQuotasRequest(components=components, strict=strict)
            answer = transcript.ask_quietly(request, version)
            told = [
                [
                    sorted((e.entity_type, e.entity_name or "") for e in entry.entity),
                    sorted((v.key, v.value) for v in entry.values),
                ]
                for entry in answer.entries or ()
            ]
            transcript.note(f"{what}, v{version}", [answer.error_code, answer.entries is None, sorted(told)])

        def wait_until_told(count: int) -> None:
            """Apache Kafka's broker hears of a change a moment after it was answered."""
            everything = DescribeClientQuotasRequest(components=[], strict=False)
            until(lambda: len(transcript.ask_quietly(everything, 1).entries) == count, f"{count} quotas")

        rate = ("producer_byte_rate", 1024.0)
        user, both, anyone = [("user", bob)], [("user", bob), ("client-id", "c")], [("user", None)]
        for version in (0, 1):
            alter("only to see", (user, [rate]), version=version, validate_only=True)
            describe("nothing yet", version=version)
        alter(
            "set",
            (user, [rate, ("request_percentage", 12.5)]),
            (both, [("consumer_byte_rate", 2.0)]),
            (anyone, [rate]),
            ([("ip", "1.2.3.4")], [("connection_creation_rate", 7.0)]),
            ([("client-id", None), ("user", eve)], [("controller_mutation_rate", 0.5)]),
        )
        wait_until_told(5)
        for strict in (False, True):
            for what, *filters in (
                ("all",),
                ("any user", ("user", 2, None)),
                ("bob", ("user", 0, bob)),
                ("the default user", ("user", 1, None)),
                ("any client", ("client-id", 2, None)),
                ("bob as any client", ("user", 0, bob), ("client-id", 2, None)),
                ("eve as the default client", ("user", 0, eve), ("client-id", 1, None)),
                ("any address", ("ip", 2, None)),
            ):
                describe(f"{what}, strict {strict}", *filters, strict=strict)
        for what, *filters in (
            ("a name that is null", ("user", 0, None)),
            ("a default with a name", ("user", 1, "x")),
            ("any with a name", ("user", 2, "x")),
            ("match type 9", ("user", 9, None)),
            ("match type -1", ("user", -1, None)),
            ("an unknown type", ("foo", 2, None)),
            ("an empty type", ("", 2, None)),
            ("a type twice", ("user", 2, None), ("user", 1, None)),
            ("an address and a user", ("ip", 2, None), ("user", 2, None)),
        ):
            describe(what, *filters)
        for key, value in (
            ("no_such_key", 1.0),
            ("connection_creation_rate", 1.0),
            ("producer_byte_rate", 0.0),
            ("producer_byte_rate", -1.0),
            ("producer_byte_rate", 1.5),
            ("producer_byte_rate", 1e300),
            ("request_percentage", 0.0),
        ):
            alter(f"{key} {value}", (user, [(key, value), rate]), (anyone, [rate]))
        for entity in ([], [("foo", "x")], [("user", "")], [("ip", "x y")], [("ip", "1.2.3.4"), ("user", "x")]):
            alter(f"of {entity}", (entity, [("consumer_byte_rate", 1.0)]))
        alter("an address, too much", ([("ip", None)], [("connection_creation_rate", 1e12)]))
        alter("an entity twice", (user, [rate]), (user, [("consumer_byte_rate", 3.0)]))
        alter("a quota twice", (user, [rate, rate]))
        alter("one type twice", ([("user", bob), ("user", eve)], [rate]))
        alter("nothing of an entity", (user, []))
        alter("nothing")
        wait_until_told(6)
        describe("after all that")
        alter("remove an unknown key", (user, [("no_such_key", None)]))
        alter("remove some", (user, [("producer_byte_rate", None)]), (both, [("consumer_byte_rate", None)]))
        wait_until_told(5)
        describe("some are gone")
        alter(
            "remove the rest",
            (user, [("request_percentage", None)]),
            (anyone, [("producer_byte_rate", None)]),
            ([("user", eve)], [("producer_byte_rate", None)]),
            ([("ip", "1.2.3.4")], [("connection_creation_rate", None)]),
            ([("client-id", None), ("user", eve)], [("controller_mutation_rate", None)]),
        )
        wait_until_told(0)

    same_answers(script)


def test_describe_user_scram_credentials(same_answers: SameAnswers) -> None:
    User = DescribeUserScramCredentialsRequest.UserName

    def script(transcript: Transcript) -> None:
        for what, names in {"all": None, "none": [], "one": ["bob"], "some twice": ["bob", "", "bob"]}.items():
            users = None if names is None else [User(name=name) for name in names]
            transcript.ask(what, DescribeUserScramCredentialsRequest(users=users), 0)

    same_answers(script)
