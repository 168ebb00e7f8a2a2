"""The only door to the network: one client with limits, redirects by hand, and our errors (N1)."""

import asyncio
import base64
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from ssl import CERT_REQUIRED, SSLContext
from types import TracebackType
from typing import Protocol, Self

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
)
from yarl import URL

from headwater.clock import Clock
from headwater.errors import (
    BadRedirect,
    BadUrl,
    BrokenBody,
    ConfigError,
    HostBusy,
    LocalFault,
    TimedOut,
    TooLarge,
)
from headwater.fetch.address import Allowed
from headwater.fetch.connect import MAX_HEADER_BYTES, MAX_HEADERS, Connector, judge
from headwater.fetch.faults import NETWORK_ERRORS, fault_of
from headwater.fetch.inflate import ACCEPT_ENCODING, encoding_of, inflate, inflate_start
from headwater.fetch.names import Names, SystemNames
from headwater.fetch.response import Response, check_status, retry_after_seconds
from headwater.rules.urls import WebUrl, follow, masked, parse_url

__all__ = ["Client", "Limits", "Response", "Turns", "check_status", "retry_after_seconds"]
