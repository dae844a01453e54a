// SPDX-License-Identifier: MIT
#include "ref/base/confinement.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace draftproof {
namespace {

void limit(__rlimit_resource_t resource, rlim_t max) noexcept {
  const rlimit both = {max, max};
  setrlimit(resource, &both);
}

/// Bytes of address space that are taken now; 0: unknown.
std::size_t address_space() noexcept {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long pages = 0;
  const bool read = std::fscanf(file, "%lu", &pages) == 1;
  std::fclose(file);
  return read ? pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

#if defined(__x86_64__)
constexpr unsigned architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned architecture = AUDIT_ARCH_AARCH64;
#endif

constexpr unsigned allowed[] = {
    // descriptors that are open
    SYS_read, SYS_readv, SYS_pread64, SYS_write, SYS_writev, SYS_lseek, SYS_fstat, SYS_close, SYS_recvfrom, SYS_sendto,
    // memory
    SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise,
    // what the C library asks for in passing
    SYS_futex, SYS_getpid, SYS_gettid, SYS_getrandom, SYS_clock_gettime, SYS_sched_yield, SYS_sched_getaffinity,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall,
    // the end
    SYS_exit, SYS_exit_group};

constexpr unsigned refused[] = {
#if defined(__x86_64__)
    SYS_open,   SYS_stat,      SYS_lstat, SYS_access,     SYS_readlink,
#endif
    SYS_openat, SYS_faccessat, SYS_statx, SYS_newfstatat, SYS_readlinkat,
    SYS_getcwd, SYS_fcntl,     SYS_ioctl, SYS_prlimit64,  SYS_sysinfo};

/// A program of the kernel's filter. It reads a word of the call, and jumps forward only.
class CallFilter {
 public:
  CallFilter() {
    read(offsetof(seccomp_data, arch));
    unless(BPF_JEQ, architecture, SECCOMP_RET_KILL_PROCESS);
    read(offsetof(seccomp_data, nr));
  }

  void add(unsigned short operation, unsigned value) { program_[size_++] = BPF_STMT(operation, value); }
  void read(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset)); }
  void answer(unsigned verdict) { add(BPF_RET | BPF_K, verdict); }

  void when(unsigned call, unsigned verdict) {
    program_[size_++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    answer(verdict);
  }

  void unless(unsigned short comparison, unsigned value, unsigned verdict) {
    program_[size_++] = BPF_JUMP(static_cast<unsigned short>(BPF_JMP | comparison | BPF_K), value, 1, 0);
    answer(verdict);
  }

  /// Allows a call whose argument compares so.
  void when_argument(unsigned call, int number, unsigned short comparison, unsigned value, bool so) {
    program_[size_++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    read(offsetof(seccomp_data, args) + sizeof(std::uint64_t) * static_cast<std::size_t>(number));
    program_[size_++] = BPF_JUMP(static_cast<unsigned short>(BPF_JMP | comparison | BPF_K), value,
                                 static_cast<unsigned char>(so ? 0 : 1), static_cast<unsigned char>(so ? 1 : 0));
    answer(SECCOMP_RET_ALLOW);
    answer(SECCOMP_RET_KILL_PROCESS);
  }

  void install() noexcept {
    const sock_fprog program = {static_cast<unsigned short>(size_), program_.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  }

 private:
  std::array<sock_filter, 128> program_;
  std::size_t size_ = 0;
};

}  // namespace

void confine_resources(std::size_t memory_max) noexcept {
  constexpr rlim_t seconds_max = 3600;
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NPROC, 0);
  limit(RLIMIT_CPU, seconds_max);
  if (const std::size_t taken = address_space(); taken > 0) limit(RLIMIT_AS, taken + memory_max);
}

void confine_calls() noexcept {
  limit(RLIMIT_NOFILE, 0);
#if defined(__x86_64__) || defined(__aarch64__)
  CallFilter filter;
  for (const unsigned call : allowed) filter.when(call, SECCOMP_RET_ALLOW);
  for (const unsigned call : refused) filter.when(call, SECCOMP_RET_ERRNO | EACCES);
  filter.when_argument(SYS_mmap, 2, BPF_JSET, PROT_EXEC, false);
  filter.when_argument(SYS_mprotect, 2, BPF_JSET, PROT_EXEC, false);
  filter.when_argument(SYS_tgkill, 0, BPF_JEQ, static_cast<unsigned>(getpid()), true);  // abort() and raise()
  filter.answer(SECCOMP_RET_KILL_PROCESS);
  filter.install();
#endif
}

}  // namespace draftproof
