#pragma once

namespace haypile {

// Ctrl-C (SIGINT) and SIGTERM set a flag that long work polls between steps; a second signal ends the process.
void InstallInterruptHandler();
bool Interrupted();

}  // namespace haypile
