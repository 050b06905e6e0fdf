package org.ep4j.memory;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Objects;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * Symmetric memory of processes of one host: one sparse file per rank, mapped by all ranks, and
 * unlinked after all have mapped it.
 *
 * <p>Every rank reports the result of its step (success or error text), so a failure of one rank
 * ends the open on all ranks with the same message instead of a timeout.
 *
 * <p>Each rank keeps its own file open. A restarted rank opens the files of the others through
 * those descriptors, because the names are gone. The others map its new file over the old one, in
 * an {@link AddressRange} a rank, so addresses stay; a failure halfway is harmless, because no rank
 * uses the memory of a departed rank.
 *
 * <p>A rank that counts as lost may only be stopped, and may resume at any time and write.
 * Therefore the others leave their files to it, and map new ones over them.
 */
final class SharedFileMemory implements SymmetricMemory {
  private static final byte OK = 0;
  private static final byte FAILED = 1;
  private static final long PAGE = 4096;

  /** Arrays of a region that callers ask for in each step. */
  private static final int PRESENT_RANGES = 8;

  private final MemoryPlan plan;
  private final long bytes;
  private final int rank;
  private final int first;
  private final int end;

  /** Addresses of the ranks from {@link #first} to {@link #end}; null of others. */
  private final @Nullable AddressRange[] ranges;

  private SharedFiles.@Nullable Owned own;

  /** See {@link SharedFiles#descriptorPath}. */
  private String path = "";

  /** Ranges of this rank that {@link #require} has found to have memory. */
  private final long[] presentStart = new long[PRESENT_RANGES];

  private final long[] presentEnd = new long[PRESENT_RANGES];

  /** The range that the next new one replaces. */
  private int oldest;

  private boolean closed;

  private SharedFileMemory(int ranks, int rank, int first, int end, MemoryPlan plan) {
    this.plan = plan;
    this.bytes = plan.bytes();
    this.rank = rank;
    this.first = first;
    this.end = end;
    ranges = new AddressRange[ranks];
  }

  static SharedFileMemory allocate(
      Group group, int first, int end, MemoryPlan plan, Duration timeout) {
    SharedFileMemory memory = new SharedFileMemory(group.size(), group.rank(), first, end, plan);
    memory.create(Participants.ofAll(group), timeout, true);
    return memory;
  }

  static SharedFileMemory rejoin(
      Participants participants, int first, int end, MemoryPlan plan, Duration timeout) {
    SharedFileMemory memory =
        new SharedFileMemory(participants.ranks(), participants.rank(), first, end, plan);
    memory.create(participants, timeout, false);
    return memory;
  }

  /** Creates the file of this rank, and maps those of the others. */
  private void create(Participants participants, Duration timeout, boolean sweep) {
    SharedFiles.removeAbandoned();
    String job = participants.group().jobId();
    boolean done = false;
    try {
      String error = "";
      String name = "";
      try {
        requireSpace(plan.likelyBytes(), sweep ? end - first : 1);
        for (int r = first; r < end; r++) {
          ranges[r] = AddressRange.reserve(bytes);
        }
        SharedFiles.Owned file = createWhole(job);
        own = file;
        name = file.path().toString();
        path = SharedFiles.descriptorPath(file);
        range(rank).mapFile(file.path());
        for (MemoryPlan.Range range : plan.present()) {
          provide(file, address(rank), range.start(), range.end());
        }
      } catch (IOException | Ep4jException e) {
        error = cannotCreate(e);
      }
      String[] names = exchange(participants, error, name, timeout);
      for (int r = first; r < end && error.isEmpty(); r++) {
        String theirs = names[r];
        if (theirs == null) {
          error = pretend(r);
        } else if (r != rank) {
          error = map(r, theirs);
        }
      }
      exchange(participants, error, "", timeout);
      done = true;
    } finally {
      SharedFiles.Owned file = own;
      if (file != null) {
        removeName(file);
      }
      if (!done) {
        close();
        if (sweep) {
          SharedFiles.removeJob(job);
        }
      }
    }
  }

  @Override
  public void readmit(Participants participants, Duration timeout) {
    String[] names =
        exchange(
            participants,
            path.isEmpty()
                ? "cannot pass its shared memory to a restarted rank, because /proc/self/fd lacks"
                    + " its descriptor: mount /proc, or restart all ranks"
                : "",
            path,
            timeout);
    String error = "";
    for (int r = first; r < end && error.isEmpty(); r++) {
      String name = names[r];
      if (participants.isNew(r) && name != null) {
        error = map(r, name);
      }
    }
    exchange(participants, error, "", timeout);
  }

  @Override
  public void leave(Participants participants, boolean leaves, Duration timeout) {
    SharedFiles.Owned fresh = null;
    String freshPath = "";
    String error = "";
    if (leaves) {
      SharedFiles.removeAbandoned();
      try {
        fresh = createWhole(participants.group().jobId());
        // Before other threads of this process can have the file open.
        freshPath = SharedFiles.descriptorPath(fresh);
        for (MemoryPlan.Range range : plan.present()) {
          provide(fresh, 0, range.start(), range.end());
        }
      } catch (IOException e) {
        error = cannotCreate(e);
      }
    }
    try {
      String name = fresh == null ? "" : fresh.path().toString();
      String[] names = exchange(participants, error, name, timeout);
      if (fresh != null) {
        error = moveTo(fresh, freshPath);
        for (int r = first; r < end && error.isEmpty(); r++) {
          String theirs = names[r];
          if (r != rank && theirs != null) {
            error = map(r, theirs);
          }
        }
      }
      exchange(participants, error, "", timeout);
    } finally {
      if (fresh != null) {
        removeName(fresh);
        if (fresh != own) {
          close(fresh);
        }
      }
    }
  }

  /**
   * A file of the final size, so that a rank that maps it finds the right end. An interrupt ends
   * waits for other ranks, and not this: the JDK closes the channel of an interrupted thread, which
   * then makes another file.
   */
  private SharedFiles.Owned createWhole(String job) throws IOException {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return createOnce(job);
        } catch (ClosedByInterruptException e) {
          interrupted = Thread.interrupted() || interrupted;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private SharedFiles.Owned createOnce(String job) throws IOException {
    SharedFiles.Owned file = SharedFiles.create(job, rank);
    boolean done = false;
    try {
      file.channel().write(ByteBuffer.allocate(1), bytes - 1);
      done = true;
      return file;
    } finally {
      if (!done) {
        removeName(file);
        close(file);
      }
    }
  }

  /**
   * Replaces this rank's bytes by those of {@code fresh}.
   *
   * @return empty, or the error
   */
  private String moveTo(SharedFiles.Owned fresh, String freshPath) {
    try {
      range(rank).mapFile(fresh.path());
    } catch (IOException e) {
      return "cannot replace its shared memory: " + FileProblem.of(e);
    }
    SharedFiles.Owned old = own;
    own = fresh;
    path = freshPath;
    Arrays.fill(presentEnd, 0);
    if (old != null) {
      close(old);
    }
    return "";
  }

  /**
   * Maps the file of another rank, over the previous one if there was one.
   *
   * @return empty, or the error
   */
  private String map(int of, String name) {
    try {
      range(of).mapFile(Path.of(name));
      return "";
    } catch (IOException e) {
      return "cannot map the shared memory of rank %d (%s): %s: %s"
          .formatted(
              of,
              name,
              FileProblem.of(e),
              name.startsWith("/proc/")
                  ? "run a restarted rank as the user and in the PID namespace of the other ranks"
                      + " of its node"
                  : "let the ranks of a node share one host, one user and one "
                      + SharedFiles.directory());
    }
  }

  /**
   * Backs the addresses of a departed rank by private memory, so that every address is valid.
   *
   * @return empty, or the error
   */
  private String pretend(int of) {
    try {
      range(of).mapZeroes();
      return "";
    } catch (IOException e) {
      return "cannot replace the shared memory of rank "
          + of
          + ", which has departed: "
          + FileProblem.of(e);
    }
  }

  private AddressRange range(int of) {
    return Objects.requireNonNull(ranges[of]);
  }

  private String cannotCreate(Exception e) {
    String problem = e instanceof IOException file ? FileProblem.of(file) : e.getMessage();
    return "cannot create %d bytes of shared memory in %s: %s"
        .formatted(bytes, SharedFiles.directory(), problem);
  }

  private static void removeName(SharedFiles.Owned file) {
    try {
      Files.deleteIfExists(file.path());
    } catch (IOException e) {
      // A later sweep removes the name; the mapping does not depend on it.
    }
  }

  private static void close(SharedFiles.Owned file) {
    try {
      file.channel().close();
    } catch (IOException e) {
      // The descriptor is released in any case.
    }
  }

  /**
   * Checks the free space: files are sparse, so only the bytes that will be used must be free. The
   * ranks share one file system.
   */
  private static void requireSpace(long likelyBytes, int ranks) throws IOException {
    long usable = Files.getFileStore(SharedFiles.directory()).getUsableSpace();
    if (usable < likelyBytes * ranks) {
      throw new IOException(
          "%d bytes are free there, %d ranks use %d each with full batches, %d together: lower maxTokens, mount a larger /dev/shm, or set EP4J_SHM_DIR"
              .formatted(usable, ranks, likelyBytes, likelyBytes * ranks));
    }
  }

  @Override
  public void require(long start, long end) {
    int known = -1;
    for (int i = 0; i < PRESENT_RANGES; i++) {
      if (start >= presentStart[i] && start <= presentEnd[i]) {
        known = i;
        if (end <= presentEnd[i]) {
          return;
        }
      }
    }
    SharedFiles.Owned file = own;
    if (file == null) {
      throw new IllegalStateException("no memory of this rank");
    }
    try {
      provide(file, address(rank), start, end);
    } catch (IOException e) {
      throw new Ep4jException(
          ErrorCode.OUT_OF_SHARED_MEMORY,
          "%s; call reset() on all live ranks and send fewer tokens, or close the buffer on all ranks and open one with lower maxTokens, or enlarge the directory"
              .formatted(e.getMessage()),
          e);
    }
    if (known < 0) {
      known = oldest;
      presentStart[known] = start;
      oldest = (oldest + 1) % PRESENT_RANGES;
    }
    presentEnd[known] = end;
  }

  /**
   * Provides memory for a range of a file.
   *
   * @param address where the file is mapped; 0 if it is not mapped yet
   */
  private static void provide(SharedFiles.Owned file, long address, long start, long end)
      throws IOException {
    if (start >= end) {
      return;
    }
    int error = Libc.NOT_SUPPORTED;
    int descriptor = file.descriptor();
    if (descriptor >= 0) {
      error = Libc.provide(descriptor, start, end - start);
    }
    if (error == Libc.NOT_SUPPORTED && address != 0) {
      error = touch(address + start, address + end);
    }
    if (error != 0 && error != Libc.NOT_SUPPORTED) {
      throw new IOException(
          "the system cannot provide %d bytes of shared memory (error %d): %s"
              .formatted(end - start, error, SharedFiles.freeText()));
    }
  }

  /** Makes the file system provide pages; returns 0, or an error. */
  private static int touch(long start, long end) {
    try {
      for (long at = start & -PAGE; at < end; at += PAGE) {
        NativeMemory.touch(at);
      }
      return 0;
    } catch (InternalError e) {
      // The way in which the JVM reports a page that the system cannot provide.
      return Libc.NO_SPACE;
    }
  }

  /**
   * All-gathers a text, or fails on all ranks if one rank passes an error.
   *
   * @return the texts by rank; null for ranks that do not take part
   */
  private static @Nullable String[] exchange(
      Participants participants, String error, String text, Duration timeout) {
    byte[] body = (error.isEmpty() ? text : error).getBytes(StandardCharsets.UTF_8);
    byte[] mine = new byte[body.length + 1];
    mine[0] = error.isEmpty() ? OK : FAILED;
    System.arraycopy(body, 0, mine, 1, body.length);
    byte[][] all = participants.group().allGather(mine, timeout);
    @Nullable String[] texts = new String[participants.ranks()];
    for (int i = 0; i < all.length; i++) {
      int r = participants.number(i);
      texts[r] = new String(all[i], 1, all[i].length - 1, StandardCharsets.UTF_8);
      if (all[i][0] == FAILED) {
        throw new Ep4jException(ErrorCode.SHARED_MEMORY, "rank " + r + " " + texts[r]);
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
    AddressRange range = ranges[rank];
    return range == null ? 0 : range.address();
  }

  @Override
  public boolean sameAddressSpace() {
    return false;
  }

  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    SharedFiles.Owned file = own;
    ClosingSteps.run(
        () -> ClosingSteps.each(Arrays.asList(ranges), AddressRange::close),
        file == null ? null : () -> close(file));
  }
}
