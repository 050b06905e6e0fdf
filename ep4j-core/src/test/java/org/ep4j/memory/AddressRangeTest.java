package org.ep4j.memory;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What stands behind a range of addresses, also after calls that fail. */
class AddressRangeTest {
  private static final int BYTES = 3 << 16;
  private static final int NOBODY = 65_534;

  @TempDir Path directory;

  private Path file(String name, long word) throws IOException {
    ByteBuffer content = ByteBuffer.allocate(BYTES).order(ByteOrder.nativeOrder());
    content.putLong(0, word).putLong(BYTES - Long.BYTES, word);
    return Files.write(directory.resolve(name), content.array());
  }

  /** A device that opens like a file, and that the kernel refuses to map. */
  private static int unmappable() {
    return Libc.open(Path.of("/dev/null"), false);
  }

  private static long last(AddressRange range) {
    return NativeMemory.getLong(range.address() + BYTES - Long.BYTES);
  }

  @Test
  void filesAndZeroesReplaceEachOtherAtTheSameAddress() throws Exception {
    Path first = file("first", 11);
    try (AddressRange range = AddressRange.reserve(BYTES)) {
      long address = range.address();
      range.mapFile(first);
      assertThat(last(range)).isEqualTo(11);
      range.mapFile(file("second", 22));
      assertThat(last(range)).isEqualTo(22);
      range.mapZeroes();
      assertThat(last(range)).isZero();
      range.mapFile(first);
      NativeMemory.putLong(range.address(), 33);
      assertThat(range.address()).isEqualTo(address);
    }
    ByteBuffer written = ByteBuffer.wrap(Files.readAllBytes(first)).order(ByteOrder.nativeOrder());
    assertThat(written.getLong(0)).as("a store reaches the file").isEqualTo(33);
  }

  @Test
  void errorsNameTheErrorOfTheSystem() throws Exception {
    Path small = Files.write(directory.resolve("small"), new byte[BYTES - 1]);
    try (AddressRange range = AddressRange.reserve(BYTES)) {
      assertThatThrownBy(() -> range.mapFile(small))
          .hasMessage("the file has 196607 bytes, expected 196608");
      assertThatThrownBy(() -> range.mapDescriptor(unmappable()))
          .hasMessage("mmap of 196608 bytes failed with ENODEV (its file system cannot be mapped)");
      assertThatThrownBy(() -> AddressRange.reserve(Long.MAX_VALUE >> 1))
          .hasMessageStartingWith("mmap of 4611686018427387903 bytes failed with ENOMEM");
    }
  }

  @Test
  void symbolicLinksDevicesAndFilesOfOtherUsersAreRefused() throws Exception {
    Path target = file("target", 11);
    Path link = Files.createSymbolicLink(directory.resolve("link"), target);
    Path foreign = file("foreign", 22);
    try (AddressRange range = AddressRange.reserve(BYTES)) {
      assertThatThrownBy(() -> range.mapFile(link))
          .hasMessage("open failed with ELOOP (a symbolic link)");
      assertThatThrownBy(() -> range.mapFile(Path.of("/dev/null")))
          .hasMessage("it is no regular file");
      assumeTrue(Libc.effectiveUser() == 0, "only root can give a file away");
      Files.setAttribute(foreign, "unix:uid", NOBODY);
      assertThatThrownBy(() -> range.mapFile(foreign))
          .hasMessage("the file belongs to user 65534, and this process runs as user 0");
    }
  }

  /** The kernel removes the old mapping before it makes the new one, and may fail in between. */
  @Test
  void aHoleThatAFailedCallLeavesIsFilledWithZeroes() throws Exception {
    AddressRange range = AddressRange.reserve(BYTES);
    range.mapFile(file("lost", 11));
    Libc.unmap(range.address(), BYTES);
    assertThatThrownBy(() -> range.mapDescriptor(unmappable())).isInstanceOf(IOException.class);
    assertThat(last(range)).isZero();
    range.mapFile(file("next", 44));
    assertThat(last(range)).isEqualTo(44);
    range.close();
    range.close();
  }

  @Test
  void memoryThatAnotherThreadGotInTheHoleIsNeitherReplacedNorUnmapped() throws Exception {
    AddressRange range = AddressRange.reserve(BYTES);
    long address = range.address();
    Libc.unmap(address, BYTES);
    assertThat(Libc.fillHole(address, BYTES)).as("as the other thread").isTrue();
    NativeMemory.putLong(address, 55);
    assertThatThrownBy(() -> range.mapDescriptor(unmappable())).isInstanceOf(IOException.class);
    Path next = file("next", 66);
    assertThatThrownBy(() -> range.mapFile(next)).hasMessageContaining("open another");
    assertThatThrownBy(range::mapZeroes).hasMessageContaining("open another");
    range.close();
    assertThat(NativeMemory.getLong(address)).isEqualTo(55);
    assertThat(Libc.fillHole(address, BYTES)).as("nothing is mapped there").isFalse();
    Libc.unmap(address, BYTES);
  }

  /** A lock tells sweepers that the owner lives; closing any descriptor of the file releases it. */
  @Test
  void mappingAFileKeepsTheLockOnIt() throws Exception {
    Path file = file("locked", 11);
    try (FileChannel owner = FileChannel.open(file, StandardOpenOption.WRITE);
        AddressRange range = AddressRange.reserve(BYTES)) {
      owner.lock();
      range.mapFile(file);
      assertThat(Files.readString(Path.of("/proc/locks")))
          .contains(":" + Files.getAttribute(file, "unix:ino") + " ");
    }
  }
}
