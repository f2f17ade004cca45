#include "hand_over.hpp"

namespace privgrad::core {

HandOver::HandOver() { done_.store(0, std::memory_order_release); }
HandOver::~HandOver() { static_cast<void>(done_.load(std::memory_order_acquire)); }

HandOver::Chunk::Chunk(HandOver& all) : all_(all) {
  static_cast<void>(all_.done_.load(std::memory_order_acquire));
}
HandOver::Chunk::~Chunk() { all_.done_.fetch_add(1, std::memory_order_release); }

}  // namespace privgrad::core
