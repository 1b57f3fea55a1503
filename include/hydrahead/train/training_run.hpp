#pragma once
// A whole run of a config file: conversion if it is not done yet, the stages in order, each from the result of the one
// before, and the evaluation after each phase. Everything is found again in the run directory, so a run can stop
// anywhere.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/dist/launch_env.hpp"
#include "hydrahead/train/run_config.hpp"

namespace hydra::train {

struct TrainOptions {
  bool resume = false;                // continue the run, or start it where there is none
  std::filesystem::path resume_from;  // a checkpoint of this run instead of the newest complete one; needs resume
  std::string only_stage;             // run just this stage; those before it are done
  std::string versions;               // for the report
};

// The device of `device:`; CUDA: dist::device_index of the visible ones, made current.
at::Device device_of_rank(DeviceChoice choice, const dist::LaunchEnv& env);

// The tables of the report. Throws Interrupted when a signal stopped it: the state is saved.
std::string run_training(const RunConfig& config, const TrainOptions& options, dist::Communicator& communicator,
                         const at::Device& device);

// What run_training would do, without touching anything: resolved config, steps, parameters, memory, checkpoint sizes.
std::string describe_run(const RunConfig& config, int ranks, const at::Device& device);

}  // namespace hydra::train
