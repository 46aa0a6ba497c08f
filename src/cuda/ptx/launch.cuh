// Programmatic dependent launch: a kernel that is launched so may start while the one before it in its stream ends.
// CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
#pragma once

namespace tc::ptx {

// Waits until the kernels before have ended and what they wrote can be seen. Nothing where the architecture has no such
// launches: the host does not ask for one there.
__device__ inline void AwaitPreviousLaunch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may start, as far as this block is concerned. If it was launched so, it still waits for this one's
// end; meanwhile it holds its place on the device, so a block that waits for a peer must not call this before.
__device__ inline void AllowNextLaunch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace tc::ptx
