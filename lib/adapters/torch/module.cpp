// SPDX-License-Identifier: BSD-3-Clause
// The Python module weft_torch._weft_torch: makes process groups. The interpreter's lock is not
// held while ranks wait for each other, nor while a group is taken down, for its threads may need
// it.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "lib/adapters/torch/process_group.hpp"

namespace {

class WithoutInterpreter {
 public:
  WithoutInterpreter() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) state_ = PyEval_SaveThread();
  }
  ~WithoutInterpreter() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

class PythonProcessGroup : public weft::torch_adapter::ProcessGroup {
 public:
  using weft::torch_adapter::ProcessGroup::ProcessGroup;
  ~PythonProcessGroup() override { close_unlocked(); }
  // Called with the last strong reference if there are weak ones, which groups() has.
  void release_resources() override { close_unlocked(); }

 private:
  void close_unlocked() {
    const WithoutInterpreter unlocked;
    close();
  }
};

using Group = c10::intrusive_ptr<PythonProcessGroup>;

// Those that may live. Never destroyed: groups may outlive what is static.
struct Groups {
  std::mutex mutex;
  std::vector<c10::weak_intrusive_ptr<PythonProcessGroup>> list;
};
Groups& groups() {
  static Groups* const kept = new Groups;
  return *kept;
}

c10::intrusive_ptr<c10d::ProcessGroup> create(const c10::intrusive_ptr<c10d::Store>& store,
                                              int rank, int size,
                                              std::chrono::milliseconds timeout) {
  Group group = c10::make_intrusive<PythonProcessGroup>(store, rank, size, timeout);
  const std::lock_guard<std::mutex> lock(groups().mutex);
  auto& list = groups().list;
  list.erase(std::remove_if(list.begin(), list.end(), [](auto& old) { return old.expired(); }),
             list.end());
  list.emplace_back(group);
  return group;
}

// For the end of the program: a thread that wants the interpreter when that is gone is ended, and
// takes the process with it.
void close_all() {
  std::vector<Group> living;
  {
    const std::lock_guard<std::mutex> lock(groups().mutex);
    for (auto& old : groups().list)
      if (Group group = old.lock()) living.push_back(std::move(group));
  }
  for (const Group& group : living) group->close();
  weft::torch_adapter::Channel::join_left();
}

}  // namespace

PYBIND11_MODULE(_weft_torch, module) {
  module.def("create_process_group", &create, py::arg("store"), py::arg("rank"), py::arg("size"),
             py::arg("timeout"), py::call_guard<py::gil_scoped_release>());
  module.def("close_all", &close_all, py::call_guard<py::gil_scoped_release>());
}
