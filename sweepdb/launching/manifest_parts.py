"""Parts that manifests of every target share: how they are written down, and what their objects are called."""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from sweepdb.launching.server_command import ServerCommand

IN_THE_IMAGE = "/deployment"
Files = dict[str, str]
Manifest = Mapping[str, object]


class _Plain(yaml.SafeDumper):
    """YAML without references: what stands in two places is written twice."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  the interface of the dumper
        """Never a reference."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Text of several lines as it is, line by line."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Plain.add_representer(str, _text)


def dumped(*documents: Manifest) -> str:
    """Documents as one text of YAML."""
    return yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, default_flow_style=False, width=120)


def short_name(command: ServerCommand, longest: int = 40) -> str:
    """The model as the name of an object: small letters, digits and dashes."""
    model = command.instance.model_name.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:longest].strip("-")
