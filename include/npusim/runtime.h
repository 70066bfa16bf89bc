// Running a compiled program: devices, executors, weight and tensor files, text generation.
#pragma once
#include "npusim/program.h"
#include "program/work.h"
#include "runtime/npy.h"
#include "runtime/safetensors.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "text/generate.h"
#include "text/tokenizer.h"
