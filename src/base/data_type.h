// Sizes and names of tcDataType_t and the names of reductions, planes and operators.
#pragma once

#include <cstddef>

#include "tc.h"

namespace tc {

// Bytes of an element; 0 for a code that is no type.
constexpr size_t ElementBytes(tcDataType_t type) {
  switch (type) {
    case tcInt8:
    case tcUint8:
    case tcFloat8e4m3:
    case tcFloat8e5m2:
      return 1;
    case tcFloat16:
    case tcBfloat16:
      return 2;
    case tcInt32:
    case tcUint32:
    case tcFloat32:
      return 4;
    case tcInt64:
    case tcUint64:
    case tcFloat64:
      return 8;
    default:
      return 0;
  }
}

constexpr const char* TypeName(tcDataType_t type) {
  constexpr const char* kNames[] = {"int8", "uint8", "int32",  "uint32",   "int64",    "uint64",
                                    "half", "float", "double", "bfloat16", "fp8_e4m3", "fp8_e5m2"};
  return type >= tcInt8 && type <= tcFloat8e5m2 ? kNames[type] : "no type";
}

constexpr const char* ReductionName(tcRedOp_t op) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg"};
  return op >= tcSum && op <= tcAvg ? kNames[op] : "no reduction";
}

// As TC_PLANE spells it.
constexpr const char* PlaneName(tcPlane_t plane) {
  constexpr const char* kNames[] = {"auto", "push", "pull", "copy_engine", "host_staged"};
  return plane >= tcPlaneAuto && plane <= tcPlaneHostStaged ? kNames[plane] : "no plane";
}

constexpr const char* OpName(tcOp_t op) {
  switch (op) {
    case tcOpBarrier:
      return "tcBarrier";
    case tcOpAllGather:
      return "tcAllGather";
    case tcOpReduceScatter:
      return "tcReduceScatter";
    case tcOpAllReduce:
      return "tcAllReduce";
    case tcOpBroadcast:
      return "tcBroadcast";
    case tcOpAllToAll:
      return "tcAllToAll";
    case tcOpAllGatherV:
      return "tcAllGatherV";
    case tcOpReduceScatterV:
      return "tcReduceScatterV";
    case tcOpAllToAllV:
      return "tcAllToAllV";
    case tcOpAllGatherGemm:
      return "tcFusedAllGatherGemm";
    case tcOpGemmReduceScatter:
      return "tcFusedGemmReduceScatter";
    case tcOpGemmAllReduce:
      return "tcFusedGemmAllReduce";
    case tcOpMoeDispatch:
      return "tcMoeDispatch";
    case tcOpMoeCombine:
      return "tcMoeCombine";
    default:
      return "no operator";
  }
}

constexpr bool IsReduction(tcOp_t op) {
  return op == tcOpReduceScatter || op == tcOpAllReduce || op == tcOpReduceScatterV;
}

}  // namespace tc
