// Enough of CUDA for a C++20 compiler to run a kernel on the host: a thread for a thread, a barrier for a barrier.
#include <barrier>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__
#define __expf expf
#define __fdividef(a, b) ((a) / (b))

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct Index { int x; };

inline thread_local Index threadIdx;
inline Index blockIdx;
inline std::unique_ptr<std::barrier<>> whole_block;
inline std::vector<std::unique_ptr<std::barrier<>>> warps;
inline std::vector<float> exchanged;

inline void __syncthreads() { whole_block->arrive_and_wait(); }

inline float __shfl_xor_sync(unsigned, float value, int apart) {
  const int here = threadIdx.x;
  exchanged[here] = value;
  warps[here / 32]->arrive_and_wait();
  const float other = exchanged[here ^ apart];
  warps[here / 32]->arrive_and_wait();
  return other;
}

template <class Body>
void run_blocks(int blocks, int threads, Body body) {
  for (int block = 0; block < blocks; block++) {
    blockIdx.x = block;
    exchanged.assign(threads, 0.0f);
    whole_block = std::make_unique<std::barrier<>>(threads);
    warps.clear();
    for (int warp = 0; warp < threads / 32; warp++) warps.push_back(std::make_unique<std::barrier<>>(32));
    std::vector<std::thread> running;
    for (int thread = 0; thread < threads; thread++)
      running.emplace_back([=] { threadIdx.x = thread; body(); });
    for (auto& each : running) each.join();
  }
}
