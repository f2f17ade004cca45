// The language of kernels: C++ that compiles for the GPU and, as a twin, for the host.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../elementary.hpp"

// A kernel is a struct of plain numbers and pointers with a function run(block, shared), which does
// the work of one block of kThreads threads. nvcc compiles it for the device (kernels.cu); the C++
// compiler compiles the same source for the host, where one processor thread executes the threads
// of a block one after the other ("the twin", launch.hpp). So tests on the twin test the code that
// runs on a GPU.
//
// Both compilers neither contract products and sums nor flush small numbers to zero. Additions,
// multiplications, divisions, square roots and fused multiply-adds follow IEEE 754 on device and
// host, so they give the same bits.
#ifdef __CUDACC__
#define PRIVGRAD_HD __host__ __device__ __forceinline__
#define PRIVGRAD_UNROLL _Pragma("unroll")
#else
#define PRIVGRAD_HD inline
#define PRIVGRAD_UNROLL
#endif

namespace privgrad::cuda {

using namespace elementary;

/// The number of threads in a block, the same for every kernel.
constexpr uint32_t kThreads = 256;

/// The type of `Shared` for kernels without shared memory.
struct Nothing {};

/// Values that each thread of a block keeps from one each_thread() to the next: in registers on the
/// device, in an array on the host.
template <class Value>
struct PerThread {
#ifdef __CUDA_ARCH__
  Value value;
  __device__ __forceinline__ Value& operator[](uint32_t) { return value; }
#else
  Value values[kThreads];
  Value& operator[](uint32_t thread) { return values[thread]; }
#endif
};

/// Calls body(thread) for each thread of the block; afterwards all threads see what each has
/// written to shared memory. Every thread of a block must reach this call, so it must never be
/// inside a condition on the thread.
template <class Body>
PRIVGRAD_HD void each_thread(const Body& body) {
#ifdef __CUDA_ARCH__
  body(threadIdx.x);
  __syncthreads();
#else
  for (uint32_t thread = 0; thread < kThreads; ++thread) body(thread);
#endif
}

/// Calls body(thread) for each thread; afterwards only the thread itself, or its warp in a product,
/// uses its results.
template <class Body>
PRIVGRAD_HD void in_warps(const Body& body) {
#ifdef __CUDA_ARCH__
  body(threadIdx.x);
#else
  for (uint32_t thread = 0; thread < kThreads; ++thread) body(thread);
#endif
}

/// Begins to copy a float to shared memory, or 0 if `is_there` is false; `from` must be readable in
/// either case. The thread may read the copy after finish_copies(), the block after each_thread().
PRIVGRAD_HD void begin_copy(float* to, const float* from, bool is_there) {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from)), "r"(is_there ? 4 : 0)
               : "memory");
#else
  *to = is_there ? *from : 0.0f;
#endif
}

PRIVGRAD_HD void finish_copies() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// Kernels with independent threads, which call use(i) for each i below use.count.
template <class Use>
struct ForEach {
  using Shared = Nothing;
  Use use;
  PRIVGRAD_HD void run(uint64_t block, Shared&) const {
    each_thread([&](uint32_t thread) {
      const uint64_t i = block * kThreads + thread;
      if (i < use.count) use(i);
    });
  }
};

template <class Number>
PRIVGRAD_HD Number smaller(Number a, Number b) {
  return b < a ? b : a;
}

template <class Number>
PRIVGRAD_HD Number larger(Number a, Number b) {
  return a < b ? b : a;
}

/// Kernels that give each row of numbers kRowLanes neighbouring threads, its lanes: lane l handles
/// the numbers l, l + kRowLanes, ... of the row, so that the lanes read neighbouring numbers at
/// once. A row's numbers are added up as in the backend `cpu`: each lane's numbers in order, then
/// halves of the lanes.
constexpr uint32_t kRowLanes = 16, kRowsOfBlock = kThreads / kRowLanes;

/// Values that the lanes of a block's rows exchange.
template <class Number>
struct Lanes {
  Number values[kRowsOfBlock][kRowLanes];

  PRIVGRAD_HD Number& of(uint32_t thread) { return values[thread / kRowLanes][thread % kRowLanes]; }
  PRIVGRAD_HD Number sum(uint32_t thread) const {
    Number lane[kRowLanes];
    for (uint32_t l = 0; l < kRowLanes; ++l) lane[l] = values[thread / kRowLanes][l];
    for (uint32_t half = kRowLanes / 2; half > 0; half /= 2) {
      for (uint32_t l = 0; l < half; ++l) lane[l] += lane[l + half];
    }
    return lane[0];
  }
  PRIVGRAD_HD Number largest(uint32_t thread) const {
    Number most = values[thread / kRowLanes][0];
    for (uint32_t l = 1; l < kRowLanes; ++l) most = larger(most, values[thread / kRowLanes][l]);
    return most;
  }
};

inline uint64_t blocks_of_rows(uint64_t rows) { return (rows + kRowsOfBlock - 1) / kRowsOfBlock; }
PRIVGRAD_HD uint64_t row_of_thread(uint64_t block, uint32_t thread) {
  return block * kRowsOfBlock + thread / kRowLanes;
}

// --- Arithmetic that device and host share.

PRIVGRAD_HD float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

PRIVGRAD_HD double fused(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}

PRIVGRAD_HD float square_root(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

PRIVGRAD_HD double square_root(double x) {
#ifdef __CUDA_ARCH__
  return __dsqrt_rn(x);
#else
  return __builtin_sqrt(x);
#endif
}

/// Adds modulo 2^64; several threads may add to the same number.
PRIVGRAD_HD void add_to(uint64_t* sum, uint64_t value) {
#ifdef __CUDA_ARCH__
  atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
#else
  __atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
#endif
}

// --- 128-bit integers: squared lengths.

struct Wide {
  uint64_t high, low;
};

PRIVGRAD_HD Wide sum_of(Wide a, Wide b) {
  const uint64_t low = a.low + b.low;
  return {a.high + b.high + (low < a.low ? 1u : 0u), low};
}

PRIVGRAD_HD Wide product_of(uint64_t a, uint64_t b) {
  const uint64_t mask = 0xffffffffu;
  const uint64_t low = (a & mask) * (b & mask);
  const uint64_t left = (a >> 32) * (b & mask) + (low >> 32);
  const uint64_t right = (a & mask) * (b >> 32) + (left & mask);
  return {(a >> 32) * (b >> 32) + (left >> 32) + (right >> 32), (right << 32) | (low & mask)};
}

PRIVGRAD_HD bool is_larger(Wide a, Wide b) {
  return a.high != b.high ? a.high > b.high : a.low > b.low;
}

}  // namespace privgrad::cuda
