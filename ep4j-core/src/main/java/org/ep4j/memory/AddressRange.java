package org.ep4j.memory;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * A range of addresses that this process owns: reserved at once without memory, then backed by a
 * file or by zeroed pages, in place and repeatedly, and unmapped once by {@link #close()}. Until
 * something backs the range, any access to it ends the process.
 *
 * <p>To back the range anew, the kernel removes the old mapping and then makes the new one. If it
 * fails in between, the range is a hole, and any thread that maps memory may get its addresses: to
 * unmap or replace the range later would then destroy memory of others. Therefore a failed call
 * fills the hole at once, with zeroed pages. If something is mapped there, it is the old mapping or
 * (within microseconds) that of another thread, and no call tells which: such a range is left alone
 * for the lifetime of the process.
 *
 * <p>Used by one thread at a time.
 */
final class AddressRange implements AutoCloseable {
  private final long address;
  private final long bytes;

  /** Whether everything in the range is known to be a mapping of this object. */
  private boolean owned = true;

  /**
   * Of the mapped file, or -1. Kept open, because closing any descriptor of a file releases the
   * locks that this process holds on it.
   */
  private int descriptor = -1;

  private AddressRange(long address, long bytes) {
    this.address = address;
    this.bytes = bytes;
  }

  /**
   * Reserves addresses, page-aligned.
   *
   * @throws IOException if the system refuses; names its error
   */
  static AddressRange reserve(long bytes) throws IOException {
    long address = Libc.reserve(bytes);
    if (address < 0) {
      throw failed((int) -address, bytes);
    }
    return new AddressRange(address, bytes);
  }

  /** First address. */
  long address() {
    return address;
  }

  /**
   * Maps the begin of a file over the range, shared with all processes that map it. Other users
   * write into directories of shared memory, too: a file of another user is refused, and so is a
   * symbolic link, unless it is one of /proc to the open file of a process.
   *
   * @throws IOException if that fails; names the error of the system. The range then holds what it
   *     held before, or zeroes
   */
  void mapFile(Path file) throws IOException {
    int opened = Libc.open(file, file.startsWith("/proc"));
    if (opened < 0) {
      throw new IOException("open failed with " + Libc.errorText(-opened));
    }
    boolean refused = true;
    try {
      check(opened);
      refused = false;
    } finally {
      if (refused) {
        Libc.close(opened);
      }
    }
    mapDescriptor(opened);
  }

  /** Checks the open file: a name could belong to another file by now. */
  private void check(int opened) throws IOException {
    Map<String, Object> file;
    try {
      file =
          Files.readAttributes(Path.of("/proc/self/fd/" + opened), "unix:uid,isRegularFile,size");
    } catch (IOException e) {
      throw new IOException("its owner is unknown, because /proc cannot be read: mount it", e);
    }
    if (!Boolean.TRUE.equals(file.get("isRegularFile"))) {
      throw new IOException("it is no regular file");
    }
    Object user = Libc.effectiveUser();
    if (!user.equals(file.get("uid"))) {
      throw new IOException(
          "the file belongs to user %s, and this process runs as user %s"
              .formatted(file.get("uid"), user));
    }
    // Access beyond the end of a file faults.
    if (!(file.get("size") instanceof Long size) || size < bytes) {
      throw new IOException("the file has " + file.get("size") + " bytes, expected " + bytes);
    }
  }

  /** Maps the begin of an open file over the range; closes the descriptor later, or if it fails. */
  void mapDescriptor(int opened) throws IOException {
    int other = opened;
    try {
      requireOwned();
      requireDone(Libc.mapFileAt(address, bytes, opened));
      other = descriptor;
      descriptor = opened;
    } finally {
      closeFile(other);
    }
  }

  /**
   * Backs the range by zeroed pages of this process.
   *
   * @throws IOException if that fails; names the error of the system
   */
  void mapZeroes() throws IOException {
    requireOwned();
    requireDone(Libc.mapZeroesAt(address, bytes));
  }

  private void requireOwned() throws IOException {
    if (!owned) {
      throw new IOException(
          "these addresses are lost since an earlier mmap failed: close this buffer and open"
              + " another");
    }
  }

  private void requireDone(int error) throws IOException {
    if (error != 0) {
      owned = Libc.fillHole(address, bytes);
      throw failed(error, bytes);
    }
  }

  private static IOException failed(int error, long bytes) {
    return new IOException(
        "mmap of %d bytes failed with %s".formatted(bytes, Libc.errorText(error)));
  }

  private static void closeFile(int descriptor) {
    if (descriptor >= 0) {
      Libc.close(descriptor);
    }
  }

  /** Unmaps the range; closing twice is harmless. */
  @Override
  public void close() {
    // The mapping does not need the descriptor, which is closed even if unmapping fails.
    closeFile(descriptor);
    descriptor = -1;
    if (owned) {
      owned = false;
      Libc.unmap(address, bytes);
    }
  }
}
