"""PyTorch's memory as input and output, two ranks as threads of one process. usage: torch_test.py <libtilecomm.so>

Exits 0 and prints "no GPU" where PyTorch or a GPU is missing. Run it with and without
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.
"""
import ctypes
import sys
import threading

try:
    import torch
except ImportError:
    print("no GPU: PyTorch is not installed")
    sys.exit(0)
if not torch.cuda.is_available():
    print("no GPU")
    sys.exit(0)

tc = ctypes.CDLL(sys.argv[1])
tc.tcGetLastError.restype = ctypes.c_char_p
TYPES = {torch.float16: 6, torch.float32: 7, torch.bfloat16: 9}
RANKS = 2


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def check(result):
    if result != 0:
        raise RuntimeError(f"{result}: {tc.tcGetLastError(None).decode()}")


def run_rank(uid, rank, errors):
    try:
        device = rank % torch.cuda.device_count()
        torch.cuda.set_device(device)
        comm = ctypes.c_void_p()
        check(tc.tcInitComm(ctypes.byref(comm), RANKS, ctypes.byref(uid), rank, None))
        stream = torch.cuda.Stream(device)
        for round_ in range(30):
            for dtype, code in TYPES.items():
                m, n, k = 96 + 2 * round_, 130, 72
                generator = torch.Generator().manual_seed(round_)
                whole = torch.randn(m, k, generator=generator).to(dtype)
                weight = torch.randn(n, k, generator=generator).to(dtype)
                half = m // RANKS
                a = whole[rank * half : (rank + 1) * half].to(device)
                b = weight.to(device)
                c = torch.full((m, n), float("nan"), dtype=dtype, device=device)
                torch.cuda.synchronize(device)
                barrier.wait()
                check(tc.tcFusedAllGatherGemm(
                    ctypes.c_void_p(a.data_ptr()), ctypes.c_void_p(b.data_ptr()), ctypes.c_void_p(c.data_ptr()),
                    ctypes.c_size_t(m), ctypes.c_size_t(n), ctypes.c_size_t(k), code, None, comm,
                    ctypes.c_void_p(stream.cuda_stream)))
                stream.synchronize()
                barrier.wait()
                expected = whole.double() @ weight.double().T
                scale = whole.double().abs() @ weight.double().abs().T
                epsilon = {torch.float16: 2**-11, torch.float32: 2**-24, torch.bfloat16: 2**-8}[dtype]
                bound = 1.01 * epsilon * expected.abs() + k * 2**-24 * scale + 2**-24
                if not bool(((c.cpu().double() - expected).abs() <= bound).all()):
                    raise RuntimeError(f"rank {rank}, round {round_}, {dtype}: wrong result")
        check(tc.tcCommDestroy(comm))
    except Exception as error:  # noqa: BLE001
        errors.append(error)
        barrier.abort()


for gpu in range(torch.cuda.device_count()):
    torch.zeros(1, device=gpu)  # PyTorch's first use of a device, before threads share it
identity = UniqueId()
check(tc.tcGetUniqueId(ctypes.byref(identity)))
barrier = threading.Barrier(RANKS)
failures = []
threads = [threading.Thread(target=run_rank, args=(identity, rank, failures)) for rank in range(RANKS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for failure in failures:
    print(failure)
print("FAILED" if failures else f"{30 * len(TYPES)} products on {RANKS} ranks right")
sys.exit(1 if failures else 0)
