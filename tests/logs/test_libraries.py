"""Tracebacks, log records of libraries, and streams that fail."""

import asyncio
import io
import logging
import subprocess
import sys
import warnings

import pytest

from tests.logs.recorded_log import STAMP, written

SECRET = "hunter2xyz"


def test_u7_a_traceback_is_a_field_of_the_same_line(lines):
    log = written(lines)
    try:
        raise ValueError("odd\nthing")
    except ValueError:
        log.exception("[Polling] broke", url="https://example.org/")
    (line,) = lines.getvalue().splitlines()
    assert " error [Polling] broke url=https://example.org/ exception=" in line
    assert "Traceback" in line
    assert line.endswith(r'ValueError: odd\nthing"')


def test_u7_a_deep_traceback_still_names_its_error(lines):
    def deeper(levels):
        return deeper(levels - 1) if levels else {"there": 1}["missing"]

    log = written(lines)
    try:
        deeper(500)
    except KeyError:
        log.exception("e")
    assert "KeyError: 'missing'" in lines.getvalue()


def test_u7_exc_info_without_an_exception_adds_nothing(lines):
    written(lines).error("e", exc_info=True)
    assert lines.getvalue() == f"{STAMP} error e\n"


@pytest.mark.parametrize("name", ["aiohttp.client", "uvicorn.error", "asyncio"])
def test_u7_library_records_from_warning_on_use_the_same_format(lines, name):
    written(lines, level="debug")
    logger = logging.getLogger(name)
    logger.info("not this")
    logger.warning("bad %s\nfrom %s", "answer", f"https://me:{SECRET}@example.org/")
    logger.log(35, "odd level")
    assert lines.getvalue() == (
        f"{STAMP} warning bad answer\\nfrom https://example.org/ logger={name}\n"
        f"{STAMP} warning odd level logger={name}\n"
    )


def test_u7_a_badly_formatted_library_record_is_still_logged(lines):
    written(lines)
    logging.getLogger().handlers[:-1] = []  # the test runner's own handler would raise
    logging.getLogger("library").error("%d of %s", "x")
    assert lines.getvalue() == f"{STAMP} error %d of %s logger=library\n"


def test_u7_library_records_below_our_level_are_dropped(lines):
    written(lines, level="error")
    logging.getLogger("library").warning("w")
    assert lines.getvalue() == ""


def test_u7_a_second_configuration_does_not_double_the_lines(lines):
    written(lines)
    written(lines)
    logging.getLogger("library").error("once")
    assert lines.getvalue().count("once") == 1


def test_u7_warnings_of_python_are_lines_too(lines):
    written(lines)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("old\nways", stacklevel=1)
    logging.captureWarnings(False)
    assert lines.getvalue().count("\n") == 1
    assert "logger=py.warnings" in lines.getvalue()


async def test_u7_an_unretrieved_exception_of_a_task_is_one_line(lines):
    written(lines)

    async def fail():
        raise ValueError("lost")

    task = asyncio.ensure_future(fail())
    await asyncio.wait([task])
    asyncio.get_running_loop().call_exception_handler(
        {"message": "Task exception was never retrieved", "exception": task.exception()}
    )
    assert lines.getvalue().count("\n") == 1
    assert "ValueError: lost" in lines.getvalue()


class Full(io.StringIO):
    def write(self, text):
        raise OSError(28, "No space left on device")


class Ascii(io.StringIO):
    def write(self, text):
        text.encode("ascii")
        return super().write(text)


def test_u7_a_failing_log_stream_is_ignored(lines):
    written(Full()).info("e")
    closed = io.StringIO()
    closed.close()
    written(closed).info("e")


def test_u7_a_stream_of_ascii_gets_escapes(lines):
    stream = Ascii()
    written(stream).info("grün 😀")
    assert stream.getvalue() == f"{STAMP} info gr\\xfcn \\U0001f600\n"


def test_l1_unconfigured_only_warnings_reach_standard_error():
    program = (
        "from headwater.logs import get_logger\n"
        "log = get_logger()\n"
        "log.info('quiet')\n"
        "log.warning('loud')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert done.stderr.endswith("warning loud\n")
    assert done.stderr.count("\n") == 1
