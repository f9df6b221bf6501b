"""The pool: one backend to one thread, as many as were needed at once, and a copy that pickles."""

from __future__ import annotations

import pickle
import threading
import time

import pytest

from foreword.tokenizer.pool import TokenizerPool


class Backend:
    """Notices when two threads use it at once."""

    def __init__(self) -> None:
        self.busy = False

    def work(self) -> None:
        assert not self.busy
        self.busy = True
        time.sleep(0.001)
        self.busy = False


def test_what_is_borrowed_is_put_back_and_used_again() -> None:
    pool = TokenizerPool(Backend)
    with pool.borrow() as first:
        assert pool.num_free == 0
    with pool.borrow() as second:
        assert second is first
    assert pool.num_free == 1


def test_it_is_put_back_after_an_error() -> None:
    pool = TokenizerPool(Backend)
    with pytest.raises(KeyError), pool.borrow():
        raise KeyError
    assert pool.num_free == 1


def test_it_grows_to_the_peak_and_no_further() -> None:
    pool = TokenizerPool(Backend)
    for _ in range(3):
        with pool.borrow() as one, pool.borrow() as two, pool.borrow() as three:
            assert len({id(one), id(two), id(three)}) == 3
        assert pool.num_free == 3


def test_no_two_threads_share_a_backend() -> None:
    pool, failures = TokenizerPool(Backend, num_ready=2), []

    def run() -> None:
        for _ in range(20):
            try:
                with pool.borrow() as backend:
                    backend.work()
            except AssertionError as error:
                failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert 2 <= pool.num_free <= 16


def test_a_failure_to_make_one_loses_none() -> None:
    made = [Backend()]
    pool = TokenizerPool(made.pop)
    with pool.borrow(), pytest.raises(IndexError), pool.borrow():
        pass
    assert pool.num_free == 1


def test_a_pickled_pool_makes_its_own() -> None:
    pool = TokenizerPool(Backend, num_ready=2)
    copy = pickle.loads(pickle.dumps(pool))
    assert copy.num_free == 2
    with pool.borrow() as one, copy.borrow() as other:
        assert one is not other
