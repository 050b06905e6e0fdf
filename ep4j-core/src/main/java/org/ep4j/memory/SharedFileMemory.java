package org.ep4j.memory;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import org.ep4j.Ep4jException;
import org.ep4j.group.Group;

/**
 * Symmetric memory of processes of one host: one sparse file a rank, mapped by all, without a name
 * once all have mapped it.
 *
 * <p>Every rank tells the others how its step went, success or error text, so that one rank's
 * trouble ends the open on all ranks with the same message instead of a timeout.
 */
final class SharedFileMemory implements SymmetricMemory {
  private static final byte OK = 0;
  private static final byte FAILED = 1;

  private final long bytes;
  private final Arena arena;
  private final long[] addresses;
  private boolean closed;

  private SharedFileMemory(long bytes, Arena arena, long[] addresses) {
    this.bytes = bytes;
    this.arena = arena;
    this.addresses = addresses;
  }

  static SharedFileMemory allocate(
      Group group, int first, int end, long bytes, long likelyBytes, Duration timeout) {
    SharedFiles.removeAbandoned();
    Arena arena = Arena.ofShared();
    boolean done = false;
    try {
      SharedFileMemory memory = map(group, first, end, bytes, likelyBytes, timeout, arena);
      done = true;
      return memory;
    } finally {
      if (!done) {
        arena.close();
        SharedFiles.removeJob(group.jobId());
      }
    }
  }

  private static SharedFileMemory map(
      Group group,
      int first,
      int end,
      long bytes,
      long likelyBytes,
      Duration timeout,
      Arena arena) {
    SharedFiles.Owned own = null;
    try {
      long[] addresses = new long[group.size()];
      String error = "";
      try {
        requireSpace(likelyBytes * (end - first));
        own = SharedFiles.create(group.jobId(), group.rank());
        addresses[group.rank()] = mapWhole(own.channel(), bytes, arena);
      } catch (IOException | Ep4jException e) {
        error =
            "cannot create "
                + bytes
                + " bytes of shared memory in "
                + SharedFiles.directory()
                + ": "
                + e;
      }
      String[] names = exchange(group, error, own == null ? "" : own.path().toString(), timeout);
      for (int r = first; r < end && error.isEmpty(); r++) {
        if (r != group.rank()) {
          try (FileChannel peer =
              FileChannel.open(
                  Path.of(names[r]), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            addresses[r] = mapWhole(peer, bytes, arena);
          } catch (IOException e) {
            error =
                "cannot map the shared memory of rank "
                    + r
                    + " ("
                    + names[r]
                    + "): "
                    + e
                    + "; the ranks of a node must share one host and one /dev/shm";
          }
        }
      }
      exchange(group, error, "", timeout);
      return new SharedFileMemory(bytes, arena, addresses);
    } finally {
      try {
        if (own != null) {
          Files.deleteIfExists(own.path());
          own.channel().close();
        }
      } catch (IOException e) {
        // The name is gone or will be swept; the mapping does not depend on it.
      }
    }
  }

  /** Grows the file where needed (never shrinks it) and maps it. */
  private static long mapWhole(FileChannel channel, long bytes, Arena arena) throws IOException {
    MemorySegment segment = channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes, arena);
    return segment.address();
  }

  /** Files are sparse, so only what will be used must be there; the ranks share one file system. */
  private static void requireSpace(long likelyBytesOfAll) throws IOException {
    long usable = Files.getFileStore(SharedFiles.directory()).getUsableSpace();
    if (usable < likelyBytesOfAll) {
      throw new Ep4jException(
          "only "
              + usable
              + " bytes are free there, the ranks will use "
              + likelyBytesOfAll
              + ": lower maxTokens, mount a larger /dev/shm, or set EP4J_SHM_DIR");
    }
  }

  /** All-gathers a text, or fails on all ranks if one rank passes an error. */
  private static String[] exchange(Group group, String error, String text, Duration timeout) {
    byte[] body = (error.isEmpty() ? text : error).getBytes(StandardCharsets.UTF_8);
    byte[] mine = new byte[body.length + 1];
    mine[0] = error.isEmpty() ? OK : FAILED;
    System.arraycopy(body, 0, mine, 1, body.length);
    byte[][] all = group.allGather(mine, timeout);
    String[] texts = new String[all.length];
    for (int r = 0; r < all.length; r++) {
      texts[r] = new String(all[r], 1, all[r].length - 1, StandardCharsets.UTF_8);
      if (all[r][0] == FAILED) {
        throw new Ep4jException("rank " + r + " " + texts[r]);
      }
    }
    return texts;
  }

  @Override
  public long bytes() {
    return bytes;
  }

  @Override
  public long address(int rank) {
    return addresses[rank];
  }

  @Override
  public boolean sameAddressSpace() {
    return false;
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      arena.close();
    }
  }
}
