// Threads that work on one pass together. The caller is one of them; the others wait for the next pass, awake for a
// moment and then asleep, so that a busy neighbour costs a share of the machine and never a stall.
#pragma once
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

class Team {
  public:
    ~Team();

    // Runs task(argument, thread) on num_threads threads and returns when all are done. One run at a time.
    void run(int num_threads, void (*task)(void *, int), void *argument);

    // Inside a task: f(i) for every i in 0 .. count - 1, each on whichever thread is free, then waits for all.
    template <class F> void share(int count, F f) {
        for (int i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count;) f(i);
        meet();
    }

  private:
    void meet();
    void work(int thread, int seen);
    void grow(int num_threads);

    std::mutex one_run_;
    std::vector<std::thread> workers_;
    void (*task_)(void *, int) = nullptr;
    void *argument_ = nullptr;
    int num_threads_ = 1;
    bool is_ending_ = false;
    int owner_ = 0; // process that started the workers: a fork has none of them
    alignas(64) std::atomic<int> run_{0};
    alignas(64) std::atomic<int> num_arrived_{0};
    alignas(64) std::atomic<int> meeting_{0};
    alignas(64) std::atomic<int> next_{0};
};
