// Running a compiled program: devices, executors, weight and tensor files, text generation.
#pragma once
#include "npusim/program.h"
#include "runtime/executor.h"
#include "runtime/safetensors.h"
