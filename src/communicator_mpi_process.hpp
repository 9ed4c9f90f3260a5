// MPI's life in this process: begun once, ended when the process exits.
//
// There is one of these in a process, as there is one MPI; it is what stands for it, and nothing
// else is kept beside it.
//
// Thread-safety: get() from one thread at a time.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "src/communicator_mpi.hpp"
#include "src/communicator_mpi_link.hpp"
#include "src/communicator_mpi_watch.hpp"

namespace zero::detail {

class MpiProcess {
 public:
  // Begins MPI at the first call; collective then. Throws CommError. After a failure to begin there
  // is no second try.
  static MpiProcess& get(const MpiSettings& settings);

  MpiLink& link() { return *link_; }
  int local_rank() const { return local_rank_; }
  // A communicator comes or goes. Throws UsageError if there is one.
  void occupy();
  void vacate() { occupied_ = false; }

 private:
  MpiProcess() = default;
  void begin(const MpiSettings& settings);
  void connect(double timeout_s);
  void serve();
  void stop_serving() noexcept;
  [[noreturn]] void give_up(double lasted_s) const;
  // Waits for the ends of all ranks: true: MPI can end. Waits as long as they are alive, or for a
  // moment only where something went wrong.
  bool farewell(int status) noexcept;
  void close() noexcept;
  [[noreturn]] static void abort(int status);
  // Hooks.
  void at_exit(int status) noexcept;
  static int on_finalize(MPI_Comm, int, void* process, void*);

  bool owned_ = false;  // begun here
  int process_id_ = 0;
  bool occupied_ = false;
  bool said_goodbye_ = false;
  int rank_ = 0;
  int world_size_ = 1;
  int local_rank_ = 0;
  std::unique_ptr<MpiLink> link_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread service_;
  MpiWatch watch_;
};

}  // namespace zero::detail
