// Memory of one pass.
#pragma once
#include <stddef.h>
#include <stdlib.h>

// 64-byte aligned. Nothing is ever read that the pass did not write, but paddings are zero.
class Arena {
  public:
    ~Arena() { free(memory_); }
    // Forget what was given out. Two rounds: the first (with nothing there) only adds sizes up.
    void begin() { used_ = 0; }
    bool grow() {
        if (used_ <= size_) return false;
        free(memory_);
        size_ = used_ + used_ / 4;
        memory_ = (char *)aligned_alloc(64, round_up64(size_));
        return true;
    }
    template <class T> T *take(size_t count) {
        char *at = memory_ + used_;
        used_ += round_up64(count * sizeof(T));
        return (T *)at;
    }

  private:
    static size_t round_up64(size_t n) { return (n + 63) / 64 * 64; }
    char *memory_ = nullptr;
    size_t size_ = 0, used_ = 0;
};
