"""This library beside NCCL: both at work on two GPUs, launched in opposite orders. usage: nccl_test.py <libtilecomm.so>

Starts two processes, one a GPU. Exits 0 and prints "no GPU" where PyTorch or a second GPU is missing.
"""
import ctypes
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("no GPU: PyTorch is not installed")
    sys.exit(0)

ROUNDS = 200


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def run_rank(library, rank, name):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="file://" + name, rank=rank, world_size=2)
    tc = ctypes.CDLL(library)
    tc.tcGetLastError.restype = ctypes.c_char_p

    def check(result):
        if result != 0:
            raise RuntimeError(f"rank {rank}: {result}: {tc.tcGetLastError(None).decode()}")

    uid = UniqueId()
    comm = ctypes.c_void_p()
    check(tc.tcUniqueIdFromString(name.encode(), ctypes.byref(uid)))
    check(tc.tcInitComm(ctypes.byref(comm), 2, ctypes.byref(uid), rank, None))
    m, n, k = 2048, 4096, 1024
    generator = torch.Generator().manual_seed(7)
    whole = torch.randint(-4, 5, (m, k), generator=generator).to(torch.bfloat16)  # small integers: exact in fp32
    weight = torch.randint(-1, 2, (n, k), generator=generator).to(torch.bfloat16)
    a = whole[rank * m // 2 : (rank + 1) * m // 2].cuda()
    b = weight.cuda()
    c = torch.empty((m, n), dtype=torch.bfloat16, device="cuda")
    expected = (whole.cuda().float() @ b.float().T).to(torch.bfloat16)
    summed = torch.full((8 << 20,), float(rank + 1), device="cuda")
    total = torch.empty_like(summed)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()

    def ours():
        with torch.cuda.stream(stream):
            c.fill_(float("nan"))
        check(tc.tcFusedAllGatherGemm(
            ctypes.c_void_p(a.data_ptr()), ctypes.c_void_p(b.data_ptr()), ctypes.c_void_p(c.data_ptr()),
            ctypes.c_size_t(m), ctypes.c_size_t(n), ctypes.c_size_t(k), 9, None, comm,
            ctypes.c_void_p(stream.cuda_stream)))

    # NCCL makes its communicator, and PyTorch loads its kernels, at the first call: not while an operator waits.
    dist.all_reduce(total.copy_(summed))
    ours()
    torch.cuda.synchronize()
    for round_ in range(ROUNDS):
        total.copy_(summed)
        if rank == 0:
            ours()
        work = dist.all_reduce(total, async_op=True)
        if rank == 1:
            ours()
        work.wait()  # the next round's copy follows it on the device
        if round_ % 20 == 19:
            torch.cuda.synchronize()
            if not torch.equal(c, expected) or not bool((total == 3.0).all()):
                raise RuntimeError(f"rank {rank}, round {round_}: wrong result")
    torch.cuda.synchronize()
    check(tc.tcCommDestroy(comm))
    dist.destroy_process_group()


def main():
    if len(sys.argv) == 4:
        run_rank(sys.argv[1], int(sys.argv[2]), sys.argv[3])
        return 0
    if torch.cuda.device_count() < 2:
        print("no GPU: two are needed")
        return 0
    name = os.path.join(tempfile.gettempdir(), f"tilecomm-nccl-test-{os.getpid()}")
    ranks = [subprocess.Popen([sys.executable, __file__, sys.argv[1], str(rank), name]) for rank in range(2)]
    codes = [rank.wait(timeout=200) for rank in ranks]
    if os.path.exists(name):
        os.remove(name)
    print(f"{ROUNDS} rounds beside NCCL right" if codes == [0, 0] else f"FAILED: {codes}")
    return max(abs(code) for code in codes)


sys.exit(main())
