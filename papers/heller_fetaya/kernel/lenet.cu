// Many steps of noisy gradient descent on LeNet-5 (batches of four): one block of threads trains one model.
//
//   theta <- theta - eta (sum of gradients / 4 + decay theta) + tau xi
//
// Kernels of the convolutions, the last layer and everything a step computes stay in shared memory; the two wide layers
// are read from the second-level cache, where the models in flight fit. All arithmetic is single precision, and sums
// have a fixed order, so what a model becomes does not depend on its neighbours. Noise is Threefry-2x32 and Box-Muller
// as in sordino.auditing.fleet.trainer: the same words, so that both ways of training differ by rounding only.

// RECTIFIED: activations are rectified, else hyperbolic tangents.
#ifdef CLIP_TARGET  // a length: each example's gradient is shortened to it before the sum
#include "clipped_step.cuh"
#else
#include "backward.cuh"
#include "convolutions.cuh"
#include "dense.cuh"

__device__ __forceinline__ void step(
    Memory& m, const Run& run, float* theta, const float* images, const int* labels, const int* batch) {
  load_images(m, images, labels, batch);
  __syncthreads();
  first_convolution(m);
  __syncthreads();
  second_convolution(m);
  __syncthreads();
  dense_forward<400, 120, 16>(m, theta + D1, m.flat, m.hidden1);
  dense_forward<120, 84, 24>(m, theta + D2, m.hidden1, m.hidden2);
  last_layer(m);
  update_last_layer(m, run);
  dense_backward<120, 84, true>(theta + D2, D2, m.hidden1, m.delta2, m.delta1, run);
  __syncthreads();
  dense_backward<400, 120, false>(theta + D1, D1, m.flat, m.delta1, m.flat, run);
  __syncthreads();
  second_delta(m, m.flat);
  __syncthreads();
  second_kernel_sums(m, m.hidden2);
  halved_delta(m);
  __syncthreads();
  update_second_kernel(m, run, m.hidden2, nullptr);
  first_kernel_sums(m, m.flat);
  __syncthreads();
  update_first_kernel(m, run, m.flat, nullptr);
  // No barrier: the next step's images and labels are read by nobody before its first barrier, and what it writes
  // before that is read by nobody here.
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1) lenet_steps(
    float* thetas, const float* images, const int* labels, const int* orders, const word* keys, word first_step,
    int steps, float rate, float shrink, float tau) {
  extern __shared__ float4 shared[];
  Memory& m = *(Memory*)shared;
  const long long model = blockIdx.x;
  float* theta = thetas + model * STRIDE;
  const int* order = orders + model * steps * BATCH;
  Run run = {rate, shrink, tau, keys[2 * model], keys[2 * model + 1], first_step};
  for (int i = threadIdx.x; i < BATCH * IMAGE; i += THREADS) m.image[i] = 0.0f;
  for (int i = threadIdx.x; i < 156; i += THREADS) m.kernel1[i] = theta[K1 + i];
  for (int i = threadIdx.x; i < 2416; i += THREADS) {
    m.kernel2[i] = theta[K2 + i];
    if (i < 2400) store_turned(m, i, theta[K2 + i]);
  }
  for (int i = threadIdx.x; i < 850; i += THREADS) m.dense3[i] = theta[D3 + i];
  __syncthreads();
  for (int k = 0; k < steps; k++, run.step++) step(m, run, theta, images, labels, order + k * BATCH);
  __syncthreads();
  for (int i = threadIdx.x; i < 156; i += THREADS) theta[K1 + i] = m.kernel1[i];
  for (int i = threadIdx.x; i < 2416; i += THREADS) theta[K2 + i] = m.kernel2[i];
  for (int i = threadIdx.x; i < 850; i += THREADS) theta[D3 + i] = m.dense3[i];
}
