// SPDX-License-Identifier: MIT
#include "ref/ranks/process_ranks.h"

#include <cstdlib>
#include <string>

#include "ref/base/error.h"

#ifdef DRAFTPROOF_MPI
#define OMPI_SKIP_MPICXX
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>
#endif

namespace draftproof {
namespace {

constexpr const char* rank_variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};

/// How many ranks the launcher says there are; 1 where there is none.
int started_ranks() {
  for (const char* const name : rank_variables) {
    if (const char* const size = std::getenv(name)) return std::atoi(size);
  }
  return 1;
}

#ifdef DRAFTPROOF_MPI

constexpr int exit_lost = 3;

char farewell[96];  // written by a signal handler
std::size_t farewell_size = 0;

extern "C" void on_end(int) {
  const timespec moment = {0, 300'000'000};
  if (write(STDERR_FILENO, farewell, farewell_size) >= 0) nanosleep(&moment, nullptr);  // mpirun may drop it otherwise
  _exit(exit_lost);
}

void check(int status) {
  if (status != MPI_SUCCESS) on_end(0);
}

class MpiMail final : public Mail {
 public:
  MpiMail(int rank, int count) : rank_(rank), count_(count) {}

  int rank() const noexcept override { return rank_; }
  int count() const noexcept override { return count_; }

  void send(int to, std::span<const std::byte> bytes) override {
    check(MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD));
  }

  std::optional<Letter> receive() override {
    int has_come = 0;
    MPI_Status status;
    int size = 0;
    check(MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &has_come, &status));
    if (has_come == 0) return std::nullopt;
    check(MPI_Get_count(&status, MPI_BYTE, &size));
    Letter letter = {status.MPI_SOURCE, std::vector<std::byte>(static_cast<std::size_t>(size))};
    check(MPI_Recv(letter.bytes.data(), size, MPI_BYTE, letter.from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return letter;
  }

 private:
  static constexpr int tag = 1;

  int rank_;
  int count_;
};

class MpiRanks final : public Ranks {
 public:
  MpiRanks(int rank, int count) : Ranks(rank, count) {
    farewell_size = static_cast<std::size_t>(
        std::snprintf(farewell, sizeof farewell, "draftproof: rank %d ends, because another rank is gone\n", rank));
    std::signal(SIGTERM, on_end);  // what mpirun sends to all others when one has ended
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }

  void exchange(void* table, std::size_t bytes, int rows, std::ptrdiff_t stride, std::span<const int> bounds) override {
    auto* const first = static_cast<std::byte*>(table);
    const std::size_t row_bytes = bytes * static_cast<std::size_t>(stride);
    const int together = static_cast<int>(std::clamp<std::size_t>(message_bytes / row_bytes, 1, 1 << 20));
    for (int row = 0; row < rows; row += together) {
      exchange_rows(first + static_cast<std::size_t>(row) * row_bytes, bytes, std::min(together, rows - row), row_bytes,
                    bounds);
    }
  }

  void broadcast(std::vector<std::byte>& bytes) override {
    std::uint64_t size = bytes.size();
    std::memcpy(head_, &size, sizeof size);
    std::memcpy(head_ + sizeof size, bytes.data(), std::min<std::size_t>(size, in_head));
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(head_, sizeof head_, MPI_BYTE, 0, MPI_COMM_WORLD, &request));
    wait(request);
    std::memcpy(&size, head_, sizeof size);
    bytes.resize(size);
    std::memcpy(bytes.data(), head_ + sizeof size, std::min<std::size_t>(size, in_head));
    for (std::size_t at = in_head; at < size; at += message_bytes) {
      const int count = static_cast<int>(std::min(message_bytes, size - at));
      check(MPI_Bcast(bytes.data() + at, count, MPI_BYTE, 0, MPI_COMM_WORLD));
    }
    ++traffic_.messages;
    traffic_.bytes += sizeof head_ + (size > in_head ? size - in_head : 0);
  }

 private:
  static constexpr std::size_t message_bytes = std::size_t{1} << 29;
  static constexpr std::size_t in_head = 1016;

  void exchange_rows(std::byte* first, std::size_t bytes, int rows, std::size_t row_bytes,
                     std::span<const int> bounds) {
    counts_.clear();
    places_.clear();
    std::size_t all = 0;
    for (int r = 0; r < count(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      const std::size_t size =
          bytes * static_cast<std::size_t>(bounds[at + 1] - bounds[at]) * static_cast<unsigned>(rows);
      counts_.push_back(static_cast<int>(size));
      places_.push_back(static_cast<int>(all));
      all += size;
    }
    const auto own = static_cast<std::size_t>(rank());
    ++traffic_.messages;
    traffic_.bytes += all - static_cast<std::size_t>(counts_[own]);
    const std::size_t start = bytes * static_cast<std::size_t>(bounds[0]);
    if (rows == 1) {
      gather(first + start);
      return;
    }
    if (buffer_.size() < all) buffer_.resize(all);
    copy(first, bytes, rows, row_bytes, bounds, own, false);
    gather(buffer_.data());
    for (std::size_t r = 0; r < static_cast<std::size_t>(count()); ++r) {
      if (r != own) copy(first, bytes, rows, row_bytes, bounds, r, true);
    }
  }

  /// Copies the columns of a rank from the buffer to the table, or back.
  void copy(std::byte* first, std::size_t bytes, int rows, std::size_t row_bytes, std::span<const int> bounds,
            std::size_t rank, bool to_table) {
    const std::size_t width = bytes * static_cast<std::size_t>(bounds[rank + 1] - bounds[rank]);
    std::byte* packed = buffer_.data() + places_[rank];
    std::byte* columns = first + bytes * static_cast<std::size_t>(bounds[rank]);
    for (int row = 0; row < rows && width > 0; ++row, packed += width, columns += row_bytes) {
      std::memcpy(to_table ? columns : packed, to_table ? packed : columns, width);
    }
  }

  void gather(std::byte* parts) {
    check(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, parts, counts_.data(), places_.data(), MPI_BYTE,
                         MPI_COMM_WORLD));
  }

  /// Looks again and again for a while, then sleeps in between: a server may wait for hours.
  void wait(MPI_Request& request) {
    constexpr int looks = 20000;
    for (int look = 0;; ++look) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      if (done != 0) return;
      if (look > looks) usleep(100);
    }
  }

  std::byte head_[in_head + sizeof(std::uint64_t)] = {};
  std::vector<std::byte> buffer_;
  std::vector<int> counts_, places_;  // of each rank, in bytes
};

Ranks* start() {
  int provided = 0;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for our threads, not for those of MPI
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  int rank = 0;
  int count = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  static MpiRanks ranks(rank, count);
  if (provided < MPI_THREAD_SERIALIZED) throw Error("this MPI serves no program with threads; use Open MPI");
  return &ranks;
}

#endif

}  // namespace

#ifdef DRAFTPROOF_MPI

Ranks* process_ranks() {
  static Ranks* const ranks = started_ranks() > 1 ? start() : nullptr;
  return ranks;
}

Mail* process_mail() {
  const Ranks* const ranks = process_ranks();
  if (ranks == nullptr) return nullptr;
  static MpiMail mail(ranks->rank(), ranks->count());
  return &mail;
}

void leave_ranks() {
  std::signal(SIGTERM, SIG_DFL);
  MPI_Finalize();
}

#else

Ranks* process_ranks() {
  if (started_ranks() <= 1) return nullptr;
  throw Error("mpirun has started several processes of a build without MPI; configure with -DDRAFTPROOF_MPI=ON");
}

Mail* process_mail() {
  process_ranks();
  return nullptr;
}

void leave_ranks() {}

#endif

std::span<const char* const> variables_of_ranks() noexcept { return rank_variables; }

}  // namespace draftproof
