"""Ranks as threads of one Python process, by ctypes alone: gather and multiply, checked in double precision.

usage: ctypes_test.py <libtilecomm.so>
"""
import array
import ctypes
import sys
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_float, c_int, c_int32, c_size_t, c_void_p

SUCCESS, INVALID_ARGUMENT, FLOAT32, BACKEND_HOST = 0, 4, 7, 1
RANKS, M, N, K = 4, 30, 19, 45
ROWS = -(-M // RANKS)


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", c_char * 128)]


class Config(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_int32),
        ("backend", c_int32),
        ("workspaceBytes", c_size_t),
        ("maxSMs", c_int32),
        ("timeoutMs", c_int32),
        ("entryTimeoutMs", c_int32),
        ("deterministic", c_int32),
        ("name", c_char_p),
    ]


def load(path):
    tc = ctypes.CDLL(path)
    for name, arguments in {
        "tcConfigInit": [POINTER(Config), c_size_t],
        "tcGetUniqueId": [POINTER(UniqueId)],
        "tcInitComm": [POINTER(c_void_p), c_int, POINTER(UniqueId), c_int, POINTER(Config)],
        "tcCommDestroy": [c_void_p],
        "tcStreamSynchronize": [c_void_p, c_void_p],
        "tcMemAlloc": [POINTER(c_void_p), c_size_t],
        "tcMemFree": [c_void_p],
        "tcMemcpyAsync": [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p],
        "tcFusedAllGatherGemm": [c_void_p] * 3 + [c_size_t] * 3 + [c_int32] + [c_void_p] * 3,
    }.items():
        getattr(tc, name).argtypes = arguments
        getattr(tc, name).restype = c_int32
    tc.tcGetLastError.argtypes = [c_void_p]
    tc.tcGetLastError.restype = c_char_p
    return tc


def value_a(row, col):
    return ((row * 5 + col * 3) % 23 - 11) / 8


def value_b(rank, row, col):
    return ((row * 3 + col * 7 + rank * 2) % 17 - 8) / 4


def address(buffer):
    return buffer.buffer_info()[0]


def run_rank(tc, unique_id, rank, failures):
    def check(result):
        if result != SUCCESS:
            raise RuntimeError(f"rank {rank}: {result}: {tc.tcGetLastError(None).decode()}")

    try:
        config, comm, device_c = Config(), c_void_p(), c_void_p()
        check(tc.tcConfigInit(byref(config), ctypes.sizeof(config)))
        config.backend = BACKEND_HOST
        config.name = b"python"
        check(tc.tcInitComm(byref(comm), RANKS, byref(unique_id), rank, byref(config)))
        owned = range(rank * ROWS, min(M, (rank + 1) * ROWS))
        a = array.array("f", (value_a(i, j) for i in owned for j in range(K)))
        b = (c_float * (N * K))(*(value_b(rank, i, j) for i in range(N) for j in range(K)))
        c = array.array("f", bytes(4 * M * N))
        check(tc.tcMemAlloc(byref(device_c), 4 * M * N))
        check(tc.tcFusedAllGatherGemm(address(a), b, device_c, M, N, K, FLOAT32, None, comm, None))
        check(tc.tcMemcpyAsync(comm, address(c), device_c, 4 * M * N, None))
        check(tc.tcStreamSynchronize(comm, None))
        for i in range(M):
            for j in range(N):
                want = sum(value_a(i, p) * value_b(rank, j, p) for p in range(K))
                if not abs(c[i * N + j] - want) <= 1e-4:
                    raise RuntimeError(f"rank {rank}: c[{i}][{j}] is {c[i * N + j]}, not {want}")
        if tc.tcFusedAllGatherGemm(address(a), b, device_c, M, N, 0, FLOAT32, None, comm, None) != INVALID_ARGUMENT:
            raise RuntimeError("k = 0 was accepted")
        check(tc.tcCommDestroy(comm))
        check(tc.tcMemFree(device_c))
    except Exception as failure:
        failures.append(failure)


def main():
    tc = load(sys.argv[1])
    unique_id, failures = UniqueId(), []
    assert tc.tcGetUniqueId(byref(unique_id)) == SUCCESS
    threads = [threading.Thread(target=run_rank, args=(tc, unique_id, rank, failures)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        print(failure, file=sys.stderr)
    if failures:
        sys.exit(1)
    print("ctypes: ok")


if __name__ == "__main__":
    main()
