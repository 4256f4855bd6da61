#include "base/interrupt.h"

#include <csignal>
#include <cstdlib>

namespace haypile {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void OnSignal(int) {
  if (g_interrupted) std::_Exit(130);
  g_interrupted = 1;
}

}  // namespace

void InstallInterruptHandler() {
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
}

bool Interrupted() { return g_interrupted != 0; }

}  // namespace haypile
