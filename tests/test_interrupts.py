"""Ctrl-C during code that discards the exceptions of signal handlers."""

import signal
import sys
import threading

import pytest

from envgen.interrupts import GracefulInterrupt, delay_interrupts


def interrupt():
    signal.raise_signal(signal.SIGINT)


def is_in_callback(frame):
    while frame is not None and frame.f_code is not callback.__code__:
        frame = frame.f_back
    return frame is not None


def callback():
    interrupt()


@pytest.mark.parametrize(
    ("functions", "where", "num_reached"),
    [((interrupt, print), None, 2), ((interrupt, print), is_in_callback, 1), ((callback, print), is_in_callback, 2)],
)
def test_interrupts_are_delayed_to_the_end_of_the_block_where_they_would_be_lost(functions, where, num_reached):
    reached = []

    def run():
        with delay_interrupts(where) if where else delay_interrupts():
            for function in functions:
                reached.append(function)
                function()

    with pytest.raises(KeyboardInterrupt):
        run()
    assert reached == list(functions[:num_reached])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nested_blocks_raise_at_the_end_of_the_inner_one():
    reached = []

    def run():
        with delay_interrupts(is_in_callback):
            with delay_interrupts(is_in_callback):
                callback()
                reached.append("inner")
            reached.append("outer")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert reached == ["inner"]


def test_an_interrupt_is_not_lost_with_an_error():
    def run():
        with delay_interrupts():
            interrupt()
            raise ValueError("of the block")

    with pytest.raises(KeyboardInterrupt) as caught:
        run()
    assert isinstance(caught.value.__context__, ValueError)


def test_other_handlers_are_called_and_kept():
    received = []

    def handle(number, frame):
        received.append(number)

    previous = signal.signal(signal.SIGINT, handle)
    try:
        with delay_interrupts():
            interrupt()
            assert not received
        assert received == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is handle
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with delay_interrupts():
            interrupt()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)


def test_other_threads_leave_the_handler_alone():
    handlers = []

    def run():
        with delay_interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]


@pytest.mark.parametrize(("rank", "is_main"), [("0", True), ("1", False)])
def test_of_several_processes_the_main_one_says_that_it_stops(rank, is_main, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", rank)
    with GracefulInterrupt() as graceful:
        interrupt()
        assert graceful.requested
        assert graceful.by_ctrl_c
    assert ("stopping after this update" in capsys.readouterr().err) == is_main


def test_an_update_finishes_even_if_the_reader_of_the_output_has_ended(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed())
    with GracefulInterrupt() as graceful:
        interrupt()
        assert graceful.requested
        with pytest.raises(KeyboardInterrupt):
            interrupt()
