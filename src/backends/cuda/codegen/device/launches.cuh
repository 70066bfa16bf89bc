// Launches that begin before the one ahead of them has ended, and blocks that are a cluster.
#pragma once

// ---- lead
// What is behind this launch may start.
__device__ __forceinline__ void lead() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// ---- follow
// Until all before this launch has ended. What it wrote is read through pointers that went through behind(): reads
// of a pointer that nothing writes through could be moved before the wait.
__device__ __forceinline__ void follow() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- behind
template <typename T>
__device__ __forceinline__ T* behind(T* memory) {
  asm volatile("" : "+l"(memory));
  return memory;
}

// ---- meet_cluster
// Of all threads of the blocks of a cluster.
template <int blocks>
__device__ __forceinline__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// ---- of_piece
// The same address of shared memory in the cluster's block of this number.
template <int blocks, typename T>
__device__ __forceinline__ const T* of_piece(const T* mine, int block) {
  unsigned long long there;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(mine), "r"(block));
  return (const T*)there;
}
