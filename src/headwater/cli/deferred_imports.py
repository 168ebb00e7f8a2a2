"""Completion without the service: it reads the parameters of a command and never runs the command.

A process that completes imports the module of a command, but not the packages behind it: every name
that the module imports from them is a placeholder. Parameters must not use such names; a test
compares the parameters of every command with those of the whole program.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_OF_HEADWATER = """api app demo engine fetch formats logs mcp_server operations rules.admission
    rules.explanation settings store vault web"""
_DEFERRED = ("asyncio", "rich", *(f"headwater.{name}" for name in _OF_HEADWATER.split()))


def defer_imports() -> None:
    """Import placeholders for the packages of the service until this process ends.

    Only a process that completes may call this: it cannot run a command any more.
    """
    sys.meta_path.insert(0, _PlaceholderFinder())


def _is_deferred(name: str) -> bool:
    return name in _DEFERRED or name.startswith(tuple(f"{package}." for package in _DEFERRED))


class _PlaceholderFinder(MetaPathFinder, Loader):
    """Finds the deferred packages with all their modules, and executes none of them."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - of the protocol
        target: ModuleType | None = None,  # noqa: ARG002 - of the protocol
    ) -> ModuleSpec | None:
        """A module that is a placeholder; None: the other finders look for it."""
        return ModuleSpec(fullname, self, is_package=True) if _is_deferred(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module without a file."""
        return _PlaceholderModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Define nothing: names are defined as they are used."""


def _placeholder(_owner: object, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _PlaceholderType(name, (), {})


class _PlaceholderModule(ModuleType):
    """A module that has every name."""

    __getattr__ = _placeholder


class _PlaceholderType(type):
    """A class as annotations, base classes and constants of a module use it."""

    __getattr__ = _placeholder
