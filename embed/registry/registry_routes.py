"""The paths of the registry, and the method of `RegistryAnswers` that answers each: Confluent's REST interface."""

from __future__ import annotations

from typing import NamedTuple

_READING = """
    GET    /                                                       root
    GET    /subjects                                               subjects
    POST   /subjects/{subject}                                     look_up
    GET    /subjects/{subject}/metadata                            latest_with_metadata
    GET    /subjects/{subject}/versions                            versions
    GET    /subjects/{subject}/versions/{version}                  one_version
    GET    /subjects/{subject}/versions/{version}/schema           version_text
    GET    /subjects/{subject}/versions/{version}/referencedby     referenced_by
    GET    /schemas                                                schemas
    GET    /schemas/types                                          types
    GET    /schemas/ids/{id}                                       schema
    GET    /schemas/ids/{id}/schema                                schema_text
    GET    /schemas/ids/{id}/subjects                              subjects_of_schema
    GET    /schemas/ids/{id}/versions                              versions_of_schema
    GET    /schemas/guids/{guid}                                   schema_with_guid
    GET    /schemas/guids/{guid}/ids                               ids_with_guid
    POST   /compatibility/subjects/{subject}/versions              compatibility
    POST   /compatibility/subjects/{subject}/versions/{version}    compatibility
    GET    /config                                                 config
    GET    /config/{subject}                                       config
    GET    /mode                                                   mode
    GET    /mode/{subject}                                         mode
    GET    /contexts                                               contexts
    GET    /associations/{about:.*}                                associations
    GET    /v1/metadata/id                                         cluster
    GET    /v1/metadata/version                                    release
"""

_WRITING = """
    POST   /subjects/{subject}/versions                            register
    DELETE /subjects/{subject}                                     delete_subject
    DELETE /subjects/{subject}/versions/{version}                  delete_version
    PUT    /config                                                 set_config
    PUT    /config/{subject}                                       set_config
    DELETE /config                                                 delete_config
    DELETE /config/{subject}                                       delete_config
    PUT    /mode                                                   set_mode
    PUT    /mode/{subject}                                         set_mode
    DELETE /mode                                                   delete_mode
    DELETE /mode/{subject}                                         delete_mode
    POST   /associations{about:.*}                                 refuse_association
    PUT    /associations{about:.*}                                 refuse_association
    DELETE /associations{about:.*}                                 refuse_association
"""


class Route(NamedTuple):
    """A verb and a path for a method."""

    verb: str
    path: str
    method: str
    writes: bool
    """Whether it changes the registry: a user then needs WRITE on the topic, and otherwise READ."""


def _routes(lines: str, *, writes: bool) -> list[Route]:
    """The routes of a table: verb, path and method in a line."""
    parts = [line.split() for line in lines.split("\n") if line.strip()]
    return [Route(verb, path, method, writes) for verb, path, method in parts]


ROUTES: tuple[Route, ...] = (*_routes(_READING, writes=False), *_routes(_WRITING, writes=True))
