"""tc.h is readable for binding generators: pycparser and cffi parse it with no CUDA header and no system header.

usage: header_test.py <include dir> <libtilecomm.so>
"""
import os
import subprocess
import sys
import tempfile

import cffi
import pycparser
from pycparser import c_ast

STRUCTS = {
    "tcConfig_t": "tcConfigInit",
    "tcGemmConfig_t": "tcGemmConfigInit",
    "tcMoeConfig_t": "tcMoeConfigInit",
    "tcMoeDispatchArgs_t": "tcMoeDispatchArgsInit",
    "tcMoeRecv_t": "tcMoeRecvInit",
    "tcMoeCombineArgs_t": "tcMoeCombineArgsInit",
    "tcOpDesc_t": "tcOpDescInit",
    "tcCommStats_t": "tcCommStatsInit",
}
FIXED_TYPES = "".join(
    f"typedef {c_type} {name};\n"
    for c_type, name in [
        ("unsigned long", "size_t"),
        ("int", "int32_t"),
        ("unsigned int", "uint32_t"),
        ("long", "int64_t"),
        ("unsigned long", "uint64_t"),
    ]
)


def preprocess(include_dir):
    """The header's text with empty files in the place of the two standard headers that it may include."""
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stddef.h", "stdint.h"):
            open(os.path.join(empty, name), "w").close()
        command = [os.environ.get("CC", "cc"), "-E", "-P", "-std=c99", "-nostdinc", "-I", empty]
        header = os.path.join(include_dir, "tc.h")
        return subprocess.run(command + [header], check=True, stdout=subprocess.PIPE, text=True).stdout


def check_pycparser(text):
    functions, structs = set(), set()
    for node in pycparser.CParser().parse(FIXED_TYPES + text, "tc.h").ext:
        assert not isinstance(node, c_ast.FuncDef), f"an inline function: {node.decl.name}"
        if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
            functions.add(node.name)
        elif isinstance(node, c_ast.Typedef) and isinstance(getattr(node.type, "type", None), c_ast.Struct):
            if node.type.type.decls:
                structs.add(node.name)
                for field in node.type.type.decls:
                    assert field.bitsize is None, f"a bit-field: {node.name}.{field.name}"
    assert STRUCTS.keys() <= structs, STRUCTS.keys() - structs
    plain = {name for name in functions if name.startswith("tc")}
    assert len(plain) >= 57 and {"p" + name for name in plain} == functions - plain
    return functions


def check_cffi(text, library, functions):
    ffi = cffi.FFI()
    ffi.cdef(text)
    tc = ffi.dlopen(library)
    for name in functions:
        assert getattr(tc, name) != ffi.NULL, name
    # The layout that cffi computes is the library's: each ...Init takes this size, and nothing smaller.
    for struct, init in STRUCTS.items():
        value = ffi.new(struct + "*")
        size = ffi.sizeof(struct)
        assert getattr(tc, init)(value, size) == tc.tcSuccess, init
        assert value.size == size, init
        assert getattr(tc, init)(value, size - 1) == tc.tcInvalidArgument, init
    config = ffi.new("tcGemmConfig_t*")
    assert tc.tcGemmConfigInit(config, ffi.sizeof("tcGemmConfig_t")) == tc.tcSuccess
    assert (config.alpha, config.outType, config.bType) == (1.0, -1, -1)
    multiply(ffi, tc)


def multiply(ffi, tc):
    """One rank alone: a · bᵀ of small integers."""
    m, n, k = 5, 7, 9
    config = ffi.new("tcConfig_t*")
    assert tc.tcConfigInit(config, ffi.sizeof("tcConfig_t")) == tc.tcSuccess
    config.backend = tc.tcBackendHost
    unique_id, comm = ffi.new("tcUniqueId*"), ffi.new("tcComm_t*")
    assert tc.tcGetUniqueId(unique_id) == tc.tcSuccess
    check(ffi, tc, tc.tcInitComm(comm, 1, unique_id, 0, config))
    a = ffi.new("float[]", [(i * 3) % 5 - 2 for i in range(m * k)])
    b = ffi.new("float[]", [(i * 7) % 11 - 5 for i in range(n * k)])
    c = ffi.new("float[]", m * n)
    check(ffi, tc, tc.tcFusedAllGatherGemm(a, b, c, m, n, k, tc.tcFloat32, ffi.NULL, comm[0], ffi.NULL))
    check(ffi, tc, tc.tcStreamSynchronize(comm[0], ffi.NULL))
    for i in range(m):
        for j in range(n):
            assert c[i * n + j] == sum(a[i * k + p] * b[j * k + p] for p in range(k)), (i, j)
    assert tc.tcFusedAllGatherGemm(a, b, c, m, n, 0, tc.tcFloat32, ffi.NULL, comm[0], ffi.NULL) == tc.tcInvalidArgument
    check(ffi, tc, tc.tcCommDestroy(comm[0]))


def check(ffi, tc, result):
    assert result == tc.tcSuccess, ffi.string(tc.tcGetLastError(ffi.NULL)).decode()


if __name__ == "__main__":
    header_text = preprocess(sys.argv[1])
    check_cffi(header_text, sys.argv[2], check_pycparser(header_text))
    print("header: ok")
