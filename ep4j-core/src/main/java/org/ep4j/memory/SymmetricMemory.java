package org.ep4j.memory;

import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.ep4j.group.Group;

/**
 * The same number of zeroed bytes on every rank, those of the ranks that share memory mapped here.
 * Pages take memory only once they are touched. Addresses stay fixed until {@link #close()}.
 *
 * <p>Closing is local: a peer that still works on this rank's bytes keeps them until it closes too.
 */
public sealed interface SymmetricMemory extends AutoCloseable
    permits InProcessMemory, SharedFileMemory {
  /** Names the directory of regions that processes share. */
  String DIRECTORY_VARIABLE = "EP4J_SHM_DIR";

  /**
   * Where processes with this environment share memory: {@link #DIRECTORY_VARIABLE}, or /dev/shm.
   *
   * @param environment of the process
   */
  static Path directory(Map<String, String> environment) {
    String configured = environment.getOrDefault(DIRECTORY_VARIABLE, "");
    return Path.of(configured.isBlank() ? "/dev/shm" : configured);
  }

  /**
   * Allocates on every rank; collective. All ranks pass the same numbers.
   *
   * @param bytes bytes a rank
   * @param likelyBytes of these, what ordinary use will touch: refused if that much is not free
   * @throws org.ep4j.Ep4jException if a rank cannot provide or map the memory, naming it
   */
  static SymmetricMemory allocate(Group group, long bytes, long likelyBytes, Duration timeout) {
    return allocate(group, 0, group.size(), bytes, likelyBytes, timeout);
  }

  /**
   * The same where only the ranks from {@code first} to {@code end} share memory with this one.
   *
   * @param first of them
   * @param end behind the last of them
   */
  static SymmetricMemory allocate(
      Group group, int first, int end, long bytes, long likelyBytes, Duration timeout) {
    return group.inProcess()
        ? InProcessMemory.allocate(group, first, end, bytes, timeout)
        : SharedFileMemory.allocate(group, first, end, bytes, likelyBytes, timeout);
  }

  /**
   * The same for ranks that come back to memory that the others have kept ({@link #readmit}); those
   * that are gone get memory here that nobody else sees.
   *
   * @param participants the live ranks, all of which take part
   * @throws org.ep4j.Ep4jException if a rank cannot provide or map the memory, naming it
   */
  static SymmetricMemory rejoin(
      Participants participants,
      int first,
      int end,
      long bytes,
      long likelyBytes,
      Duration timeout) {
    return SharedFileMemory.rejoin(participants, first, end, bytes, likelyBytes, timeout);
  }

  /**
   * Takes in ranks that come back: the others keep their bytes and addresses, and map those of the
   * newcomers, at the addresses of the old ones. Collective with {@link #rejoin} there. Nobody uses
   * the bytes of the newcomers' places meanwhile.
   *
   * @throws org.ep4j.Ep4jException if a rank cannot provide or map the memory, naming it; nothing
   *     has changed then
   */
  void readmit(Participants participants, Duration timeout);

  /**
   * Leaves the bytes to ranks that were lost, and may only have been stopped, and goes on in zeroed
   * ones at the same addresses, which those ranks do not reach. Collective; nobody uses the memory
   * meanwhile.
   *
   * @param leaves whether the ranks that share memory with this one do so, the same on all of them
   * @throws org.ep4j.Ep4jException if a rank cannot provide or map the memory, naming it; some
   *     bytes may be new then and some not, until this is called again
   */
  void leave(Participants participants, boolean leaves, Duration timeout);

  /** Bytes per rank. */
  long bytes();

  /** Where the bytes of {@code rank} lie in this process; 0 if it does not share memory. */
  long address(int rank);

  /** The bytes of {@code rank}, bounded. */
  default MemorySegment segment(int rank) {
    return NativeMemory.view(address(rank), bytes());
  }

  /** Whether native addresses of one rank mean the same memory on all ranks. */
  boolean sameAddressSpace();

  @Override
  void close();
}
