// The kernel's own source, with 64 threads; KERNEL names the file. The shared array is declared inside the kernel, so
// its definition is here, under the same name.
#include "cuda_on_host.h"

float4 shared[232448 / sizeof(float4)];  // the most that a block can have

#define THREADS 64
#include KERNEL

static_assert(sizeof(Memory) <= sizeof(shared));

extern "C" long memory_bytes() { return sizeof(Memory); }

extern "C" void lenet_on_host(float* thetas, const float* images, const int* labels, const int* orders,
                              const word* keys, word first_step, int steps, float rate, float shrink, float tau,
                              int models) {
  run_blocks(models, THREADS,
             [=] { lenet_steps(thetas, images, labels, orders, keys, first_step, steps, rate, shrink, tau); });
}
