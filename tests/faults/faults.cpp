// SPDX-License-Identifier: MIT
// Put before the C library: counts the calls of a kind that a process and its children make once main() has begun, and
// makes some of them fail, or kills the process group in their place. What it shall do stands in a page that it shares
// with faults.py, which may change it while the process runs. It also keeps a log of what was written, from which
// disks.py tells what the disk holds when the power fails.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <clocale>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

/// faults.py has the same list.
enum Kind {
  memory,
  opening,
  creating,
  reading,
  writing,
  mapping,
  syncing,
  renaming,
  removing,
  threads,
  closing,
  looking,
  sockets,
  clocks,
  kinds
};

enum How { fail, part, die, die_half, cut, jump };

struct Page {
  std::int64_t kind;   // -1: none
  std::int64_t from;   // the first call that fails, from 1
  std::int64_t count;  // how many do
  std::int64_t how;
  std::int64_t error;  // errno
  std::int64_t jump;   // seconds
  std::atomic<std::int64_t> done;
  std::atomic<std::int64_t> calls[kinds];
};

Page* page = nullptr;
int log_file = -1;
bool in_main = false;
thread_local int inside = 0;  // calls of this library's own are not counted

struct Inside {
  Inside() { ++inside; }
  ~Inside() { --inside; }
};

/// Whether this call is to fail.
bool hit(Kind kind) {
  if (!in_main || page == nullptr || inside > 0) return false;
  const std::int64_t number = page->calls[kind].fetch_add(1) + 1;
  if (page->kind != kind || number < page->from || number - page->from >= page->count) return false;
  ++page->done;
  if (page->how == die) kill(0, SIGKILL);
  return true;
}

/// Events between threads cannot fail.
bool is_event(int file) {
  struct stat about {};
  return syscall(SYS_newfstatat, file, "", &about, AT_EMPTY_PATH) == 0 && (about.st_mode & S_IFMT) == 0;
}

bool does(How how) { return page->how == how; }

/// What has no half to be done before, dies at once.
template <typename Result>
Result failed(Result result) {
  if (page->how == die_half) kill(0, SIGKILL);
  errno = static_cast<int>(page->error);
  return result;
}

template <typename Function>
Function* next(Function*, const char* name) {
  const Inside guard;
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define NEXT(name) static const auto real = next(&name, #name)

// The log: a byte for what happened, then numbers of eight bytes and texts with their lengths.

void put(std::string& to, std::uint64_t number) { to.append(reinterpret_cast<const char*>(&number), sizeof number); }
void put(std::string& to, const char* from, std::size_t size) {
  put(to, size);
  to.append(from, size);
}

void tell(const std::string& record) {
  if (syscall(SYS_write, log_file, record.data(), record.size()) < 0) abort();
}

bool logged(int file, struct stat& about) {
  return log_file >= 0 && in_main && inside == 0 && file > STDERR_FILENO &&
         syscall(SYS_newfstatat, file, "", &about, AT_EMPTY_PATH) == 0 &&
         (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode));
}

std::string whole_path(const char* path) {
  std::string whole = path;
  if (path[0] == '/') return whole;
  char folder[PATH_MAX];
  return std::string(getcwd(folder, sizeof folder)) + "/" + whole;
}

void tell_opened(int file, const char* path, int flags) {
  struct stat about {};
  if ((flags & (O_CREAT | O_TRUNC)) == 0 || !logged(file, about)) return;
  const Inside guard;
  const std::string name = whole_path(path);
  std::string record = (flags & O_TRUNC) != 0 ? "T" : "C";
  put(record, about.st_ino);
  put(record, name.data(), name.size());
  tell(record);
}

void tell_written(int file, const void* from, std::size_t size, off_t at) {
  struct stat about {};
  if (!logged(file, about)) return;
  const Inside guard;
  std::string record = "W";
  put(record, about.st_ino);
  put(record, static_cast<std::uint64_t>(at));
  put(record, static_cast<const char*>(from), size);
  tell(record);
}

void tell_numbers(char what, int file, std::uint64_t size = 0) {
  struct stat about {};
  if (!logged(file, about)) return;
  const Inside guard;
  std::string record(1, what);
  put(record, about.st_ino);
  put(record, size);
  tell(record);
}

void tell_names(char what, const char* from, const char* to = "") {
  if (log_file < 0 || inside > 0) return;
  const Inside guard;
  const std::string first = whole_path(from);
  const std::string second = whole_path(to);
  std::string record(1, what);
  put(record, first.data(), first.size());
  put(record, second.data(), second.size());
  tell(record);
}

off_t place_of(int file) {
  const int flags = fcntl(file, F_GETFL);
  return lseek(file, 0, flags >= 0 && (flags & O_APPEND) != 0 ? SEEK_END : SEEK_CUR);
}

/// What stdio still holds of a file: the latest that it may reach the system is a flush.
std::map<std::FILE*, std::string>* held = nullptr;

void hold(std::FILE* file, const void* from, std::size_t size) {
  struct stat about {};
  if (!logged(fileno(file), about)) return;
  const Inside guard;
  (*held)[file].append(static_cast<const char*>(from), size);
}

/// Before the flush itself.
void tell_held(std::FILE* file) {
  if (log_file < 0 || inside > 0 || held == nullptr) return;
  std::string bytes;
  {
    const Inside guard;
    const auto found = held->find(file);
    if (found == held->end()) return;
    bytes = std::move(found->second);
    held->erase(found);
  }
  if (bytes.empty()) return;
  const off_t end = ftello(file);
  tell_written(fileno(file), bytes.data(), bytes.size(), end - static_cast<off_t>(bytes.size()));
}

/// What other code may have left behind before main().
void disturb() {
  if (const char* locale = std::getenv("FAULTS_LOCALE")) {
    if (std::setlocale(LC_ALL, locale) == nullptr) abort();
  }
#if defined(__x86_64__)
  if (const char* word = std::getenv("FAULTS_MXCSR"))
    _mm_setcsr(static_cast<unsigned>(std::strtoul(word, nullptr, 16)));
#endif
}

using Main = int (*)(int, char**, char**);
using Nothing = void (*)();
Main real_main = nullptr;

int counted_main(int count, char** words, char** environment) {
  disturb();
  in_main = true;
  return real_main(count, words, environment);
}

void begin() {
  const Inside guard;
  if (const char* name = std::getenv("FAULTS_PAGE")) {
    const int file = open(name, O_RDWR | O_CLOEXEC);
    void* const mapped = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) abort();
    page = static_cast<Page*>(mapped);
    close(file);
  }
  if (const char* name = std::getenv("FAULTS_LOG")) {
    log_file = open(name, O_WRONLY | O_APPEND | O_CLOEXEC);
    held = new std::map<std::FILE*, std::string>;
  }
  unsetenv("LD_PRELOAD");  // programs that the command starts are not ours to fail
}

template <typename Write>
ssize_t written(std::size_t size, Write write) {
  if (!hit(writing)) return write(size);
  if (does(die_half)) {
    write(size / 2);
    kill(0, SIGKILL);
  }
  if (does(part)) return write(std::max<std::size_t>(size / 2, 1));
  return failed<ssize_t>(-1);
}

template <typename Read>
ssize_t read_some(Kind kind, std::size_t size, Read read) {
  if (!hit(kind)) return read(size);
  return does(part) ? read(std::max<std::size_t>(size / 2, 1)) : failed<ssize_t>(-1);
}

}  // namespace

extern "C" {

int __libc_start_main(Main main, int count, char** words, Nothing init, Nothing end, Nothing unload, void* stack) {
  using Start = int (*)(Main, int, char**, Nothing, Nothing, Nothing, void*);
  begin();
  real_main = main;
  return reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"))(counted_main, count, words, init, end, unload,
                                                                        stack);
}

// Memory.

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) { return hit(memory) ? failed(nullptr) : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) { return hit(memory) ? failed(nullptr) : __libc_calloc(count, size); }
void* realloc(void* old, std::size_t size) { return hit(memory) ? failed(nullptr) : __libc_realloc(old, size); }
void* aligned_alloc(std::size_t to, std::size_t size) {
  return hit(memory) ? failed(nullptr) : __libc_memalign(to, size);
}
void* memalign(std::size_t to, std::size_t size) { return hit(memory) ? failed(nullptr) : __libc_memalign(to, size); }
int posix_memalign(void** result, std::size_t to, std::size_t size) {
  if (hit(memory)) return ENOMEM;
  *result = __libc_memalign(to, size);
  return *result != nullptr ? 0 : ENOMEM;
}

// Files. Flags that create or write are logged.

static int open_at(int folder, const char* path, int flags, mode_t mode) {
  if (hit((flags & O_ACCMODE) == O_RDONLY ? opening : creating)) return failed(-1);
  const int file = static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
  const int why = errno;
  if (file >= 0) tell_opened(file, path, flags);
  errno = why;
  return file;
}
#define MODE_OF(flags)                                              \
  mode_t mode = 0;                                                  \
  if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) { \
    va_list list;                                                   \
    va_start(list, flags);                                          \
    mode = va_arg(list, mode_t);                                    \
    va_end(list);                                                   \
  }
int open(const char* path, int flags, ...) {
  MODE_OF(flags)
  return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE_OF(flags)
  return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  MODE_OF(flags)
  return open_at(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  MODE_OF(flags)
  return open_at(folder, path, flags, mode);
}
std::FILE* fopen(const char* path, const char* mode) {
  NEXT(fopen);
  if (hit(*mode == 'r' ? opening : creating)) return failed(nullptr);
  std::FILE* const file = real(path, mode);
  if (file != nullptr) tell_opened(fileno(file), path, *mode == 'w' ? O_CREAT | O_TRUNC : *mode == 'a' ? O_CREAT : 0);
  return file;
}
std::FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }
DIR* opendir(const char* path) {
  NEXT(opendir);
  return hit(opening) ? failed(nullptr) : real(path);
}

ssize_t read(int file, void* to, std::size_t size) {
  if (is_event(file)) return syscall(SYS_read, file, to, size);
  return read_some(reading, size, [&](std::size_t some) { return syscall(SYS_read, file, to, some); });
}
ssize_t pread(int file, void* to, std::size_t size, off_t at) {
  return read_some(reading, size, [&](std::size_t some) { return syscall(SYS_pread64, file, to, some, at); });
}
ssize_t pread64(int file, void* to, std::size_t size, off_t at) { return pread(file, to, size, at); }
ssize_t readv(int file, const iovec* parts, int count) {
  if (hit(reading)) return does(part) ? read(file, parts->iov_base, parts->iov_len) : failed<ssize_t>(-1);
  return syscall(SYS_readv, file, parts, count);
}
std::size_t fread(void* to, std::size_t size, std::size_t count, std::FILE* file) {
  NEXT(fread);
  return hit(reading) && !does(part) ? failed<std::size_t>(0) : real(to, size, count, file);
}

/// Standard error is where the sentence goes.
ssize_t write(int file, const void* from, std::size_t size) {
  const auto write = [&](std::size_t some) -> ssize_t {
    struct stat about {};
    const off_t at = logged(file, about) ? place_of(file) : 0;
    const ssize_t count = syscall(SYS_write, file, from, some);
    const int why = errno;
    if (count > 0) tell_written(file, from, static_cast<std::size_t>(count), at);
    errno = why;
    return count;
  };
  return file == STDERR_FILENO || is_event(file) ? write(size) : written(size, write);
}
ssize_t pwrite(int file, const void* from, std::size_t size, off_t at) {
  return written(size, [&](std::size_t some) -> ssize_t {
    const ssize_t count = syscall(SYS_pwrite64, file, from, some, at);
    const int why = errno;
    if (count > 0) tell_written(file, from, static_cast<std::size_t>(count), at);
    errno = why;
    return count;
  });
}
ssize_t pwrite64(int file, const void* from, std::size_t size, off_t at) { return pwrite(file, from, size, at); }
ssize_t writev(int file, const iovec* parts, int count) {
  ssize_t all = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t some = parts[i].iov_len > 0 ? write(file, parts[i].iov_base, parts[i].iov_len) : 0;
    if (some < 0) return all > 0 ? all : some;
    all += some;
    if (static_cast<std::size_t>(some) < parts[i].iov_len) break;
  }
  return all;
}
std::size_t fwrite(const void* from, std::size_t size, std::size_t count, std::FILE* file) {
  NEXT(fwrite);
  if (file != stderr && hit(writing)) {
    if (does(die_half)) {
      real(from, size, count / 2, file);
      std::fflush(file);
      kill(0, SIGKILL);
    }
    if (!does(part)) return failed<std::size_t>(0);
  }
  hold(file, from, size * count);
  return real(from, size, count, file);
}
int fputs(const char* text, std::FILE* file) {
  return fwrite(text, 1, std::strlen(text), file) == std::strlen(text) ? 1 : EOF;
}
int putc(int c, std::FILE* file) {
  const char one = static_cast<char>(c);
  return fwrite(&one, 1, 1, file) == 1 ? c : EOF;
}
int fputc(int c, std::FILE* file) { return putc(c, file); }
int putchar(int c) { return putc(c, stdout); }
int puts(const char* text) { return fputs(text, stdout) == EOF ? EOF : putc('\n', stdout); }
int fflush(std::FILE* file) {
  NEXT(fflush);
  if (file != nullptr && file != stderr && hit(writing) && !does(part)) return failed(EOF);
  if (file != nullptr) tell_held(file);
  return real(file);
}
int fclose(std::FILE* file) {
  NEXT(fclose);
  const bool bad = file != stderr && hit(closing);
  tell_held(file);
  const int result = real(file);
  return bad ? failed(EOF) : result;
}
int close(int file) {
  const bool bad = file > STDERR_FILENO && hit(closing);
  const int result = static_cast<int>(syscall(SYS_close, file));
  return bad ? failed(-1) : result;
}
/// The log stays open.
int close_range(unsigned first, unsigned last, int flags) noexcept {
  const auto log = static_cast<unsigned>(log_file);
  if (log_file < 0 || log < first || log > last) return static_cast<int>(syscall(SYS_close_range, first, last, flags));
  if (log > first) syscall(SYS_close_range, first, log - 1, flags);
  if (log < last) syscall(SYS_close_range, log + 1, last, flags);
  return 0;
}
int ftruncate(int file, off_t size) {
  if (hit(writing) && !does(part)) return failed(-1);
  const int result = static_cast<int>(syscall(SYS_ftruncate, file, size));
  if (result == 0) tell_numbers('L', file, static_cast<std::uint64_t>(size));
  return result;
}
int ftruncate64(int file, off_t size) { return ftruncate(file, size); }

/// With `cut` the file loses its second half as soon as it is mapped.
void* mmap(void* at, std::size_t size, int rights, int flags, int file, off_t from) {
  const bool bad = hit(mapping);
  if (bad && !does(cut)) return failed(MAP_FAILED);
  void* const mapped = reinterpret_cast<void*>(syscall(SYS_mmap, at, size, rights, flags, file, from));
  if (bad && file >= 0) {
    const std::string name = "/proc/self/fd/" + std::to_string(file);
    if (truncate(name.c_str(), static_cast<off_t>(size / 2)) != 0) abort();
  }
  return mapped;
}
void* mmap64(void* at, std::size_t size, int rights, int flags, int file, off_t from) {
  return mmap(at, size, rights, flags, file, from);
}
int mprotect(void* at, std::size_t size, int rights) {
  return hit(mapping) ? failed(-1) : static_cast<int>(syscall(SYS_mprotect, at, size, rights));
}
int madvise(void* at, std::size_t size, int advice) {
  return hit(mapping) ? failed(-1) : static_cast<int>(syscall(SYS_madvise, at, size, advice));
}

int fsync(int file) {
  if (hit(syncing)) return failed(-1);
  tell_numbers('S', file);
  return static_cast<int>(syscall(SYS_fsync, file));
}
int fdatasync(int file) {
  if (hit(syncing)) return failed(-1);
  tell_numbers('S', file);
  return static_cast<int>(syscall(SYS_fdatasync, file));
}

// Names.

int rename(const char* from, const char* to) {
  if (hit(renaming)) return failed(-1);
  const int result = static_cast<int>(syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
  if (result == 0) tell_names('R', from, to);
  return result;
}
int symlink(const char* target, const char* path) {
  return hit(renaming) ? failed(-1) : static_cast<int>(syscall(SYS_symlinkat, target, AT_FDCWD, path));
}
int mkdir(const char* path, mode_t mode) {
  if (hit(renaming)) return failed(-1);
  const int result = static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (result == 0) tell_names('M', path);
  return result;
}
int unlink(const char* path) {
  if (hit(removing)) return failed(-1);
  const int result = static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
  if (result == 0) tell_names('U', path);
  return result;
}
int remove(const char* path) {
  NEXT(remove);
  if (hit(removing)) return failed(-1);
  const int result = real(path);
  if (result == 0) tell_names('U', path);
  return result;
}

int stat(const char* path, struct stat* about) {
  return hit(looking) ? failed(-1) : static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, about, 0));
}
int stat64(const char* path, struct stat64* about) {
  return hit(looking) ? failed(-1) : static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, about, 0));
}
int lstat(const char* path, struct stat* about) {
  return hit(looking) ? failed(-1)
                      : static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, about, AT_SYMLINK_NOFOLLOW));
}
int fstat(int file, struct stat* about) {
  return hit(looking) ? failed(-1) : static_cast<int>(syscall(SYS_newfstatat, file, "", about, AT_EMPTY_PATH));
}
int fstat64(int file, struct stat64* about) {
  return hit(looking) ? failed(-1) : static_cast<int>(syscall(SYS_newfstatat, file, "", about, AT_EMPTY_PATH));
}

// Threads and processes.

int pthread_create(pthread_t* thread, const pthread_attr_t* about, void* (*run)(void*), void* with) {
  NEXT(pthread_create);
  return hit(threads) ? EAGAIN : real(thread, about, run, with);
}
pid_t fork() {
  NEXT(fork);
  return hit(threads) ? failed(-1) : real();
}

// Connections.

int socket(int domain, int type, int protocol) {
  return hit(sockets) ? failed(-1) : static_cast<int>(syscall(SYS_socket, domain, type, protocol));
}
int socketpair(int domain, int type, int protocol, int ends[2]) {
  return hit(sockets) ? failed(-1) : static_cast<int>(syscall(SYS_socketpair, domain, type, protocol, ends));
}
int eventfd(unsigned count, int flags) {
  return hit(sockets) ? failed(-1) : static_cast<int>(syscall(SYS_eventfd2, count, flags));
}
int bind(int file, const sockaddr* to, socklen_t size) {
  return hit(sockets) ? failed(-1) : static_cast<int>(syscall(SYS_bind, file, to, size));
}
int listen(int file, int waiting) {
  return hit(sockets) ? failed(-1) : static_cast<int>(syscall(SYS_listen, file, waiting));
}
int setsockopt(int file, int level, int name, const void* value, socklen_t size) {
  return hit(sockets) ? failed(-1) : static_cast<int>(syscall(SYS_setsockopt, file, level, name, value, size));
}
int accept(int file, sockaddr* from, socklen_t* size) {
  return hit(sockets) ? failed(-1) : static_cast<int>(syscall(SYS_accept, file, from, size));
}
int accept4(int file, sockaddr* from, socklen_t* size, int flags) {
  return hit(sockets) ? failed(-1) : static_cast<int>(syscall(SYS_accept4, file, from, size, flags));
}
int poll(pollfd* files, nfds_t count, int timeout) {
  return hit(sockets) ? failed(-1) : static_cast<int>(syscall(SYS_poll, files, count, timeout));
}
ssize_t recv(int file, void* to, std::size_t size, int flags) {
  return read_some(sockets, size,
                   [&](std::size_t some) { return syscall(SYS_recvfrom, file, to, some, flags, nullptr, nullptr); });
}
ssize_t send(int file, const void* from, std::size_t size, int flags) {
  return read_some(sockets, size,
                   [&](std::size_t some) { return syscall(SYS_sendto, file, from, some, flags, nullptr, 0); });
}

// Clocks: only the one that people set can jump.

int clock_gettime(clockid_t clock, timespec* now) {
  NEXT(clock_gettime);
  const int result = real(clock, now);
  if (clock == CLOCK_REALTIME && hit(clocks)) now->tv_sec += page->jump;
  return result;
}
std::time_t time(std::time_t* into) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (into != nullptr) *into = now.tv_sec;
  return now.tv_sec;
}
}
