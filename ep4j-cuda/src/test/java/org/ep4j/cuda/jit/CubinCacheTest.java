package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.ep4j.cuda.driver.ForkedJvm;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CubinCacheTest {
  private static final long LARGE = 1L << 30;

  @TempDir private Path directory;

  /** Puts and gets a few keys for a while; fails if a get returns other bytes than those put. */
  static final class Hammer {
    static final int KEYS = 6;

    private Hammer() {}

    public static void main(String[] arguments) {
      CubinCache cache = new CubinCache(Path.of(arguments[0]), Long.parseLong(arguments[1]));
      Random random = new Random(Long.parseLong(arguments[2]));
      int hits = 0;
      for (int i = 0; i < 400; i++) {
        int key = random.nextInt(KEYS);
        if (random.nextBoolean()) {
          cache.put("key" + key, "round " + i, image(key));
        } else {
          byte[] found = cache.get("key" + key).orElse(null);
          hits += found == null ? 0 : 1;
          if (found != null && !Arrays.equals(found, image(key))) {
            throw new IllegalStateException("other bytes than were put under key" + key);
          }
        }
      }
      System.out.println("hits " + hits);
    }

    /** Deterministic content; every key has another size. */
    static byte[] image(int key) {
      byte[] image = new byte[20_000 + 1000 * key];
      new Random(key).nextBytes(image);
      return image;
    }
  }

  @Test
  void cachedCubinIsFoundByAnotherCache() {
    new CubinCache(directory.resolve("new/place"), LARGE).put("a-1", "kernel a", new byte[] {1, 2});
    CubinCache other = new CubinCache(directory.resolve("new/place"), LARGE);
    assertThat(other.get("a-1")).hasValue(new byte[] {1, 2});
    assertThat(other.get("a-2")).isEmpty();
    assertThat(other.list())
        .singleElement()
        .satisfies(
            entry -> {
              assertThat(entry.key()).isEqualTo("a-1");
              assertThat(entry.description()).isEqualTo("kernel a");
              assertThat(entry.bytes()).isPositive();
            });
  }

  @Test
  void damagedFilesAreDeletedAndTreatedAsMissing() throws IOException {
    CubinCache cache = new CubinCache(directory, LARGE);
    cache.put("a", "kernel", new byte[1000]);
    Path file = directory.resolve("a.cubin");
    byte[] whole = Files.readAllBytes(file);
    List<byte[]> damages = new ArrayList<>();
    damages.add(new byte[0]);
    damages.add("EP4JCUB1".getBytes(StandardCharsets.US_ASCII));
    damages.add(Arrays.copyOf(whole, whole.length - 1));
    damages.add(Arrays.copyOf(whole, whole.length + 1));
    for (int at : new int[] {0, 10, 41, 60, whole.length - 1}) {
      byte[] flipped = whole.clone();
      flipped[at] ^= 1;
      damages.add(flipped);
    }
    for (byte[] damage : damages) {
      Files.write(file, damage);
      assertThat(cache.get("a")).isEmpty();
      assertThat(file).doesNotExist();
    }
    cache.put("a", "kernel", new byte[1000]);
    assertThat(cache.get("a")).isPresent();
  }

  @Test
  void leastRecentlyUsedFilesAreDeletedFirst() throws IOException {
    byte[] image = new byte[1000];
    CubinCache cache = new CubinCache(directory, 3500);
    for (String key : List.of("a", "b", "c")) {
      cache.put(key, "", image);
    }
    age("a", 30);
    age("b", 40);
    age("c", 20);
    assertThat(cache.get("b")).isPresent(); // marks it as recently used
    cache.put("d", "", image);
    assertThat(keys(cache)).containsExactlyInAnyOrder("b", "c", "d");
  }

  @Test
  void aFileLargerThanTheLimitStaysUntilTheNext() {
    CubinCache cache = new CubinCache(directory, 100);
    cache.put("a", "", new byte[1000]);
    assertThat(keys(cache)).containsExactly("a");
    cache.put("b", "", new byte[1000]);
    assertThat(keys(cache)).containsExactly("b");
  }

  @Test
  void abandonedFilesAreDeletedAndThoseOfAWriterStay() throws IOException {
    Path old = Files.createFile(directory.resolve("x-1.tmp"));
    Files.setLastModifiedTime(old, FileTime.from(Instant.now().minus(Duration.ofHours(2))));
    Path recent = Files.createFile(directory.resolve("x-2.tmp"));
    new CubinCache(directory, LARGE).put("a", "", new byte[1]);
    assertThat(old).doesNotExist();
    assertThat(recent).exists();
  }

  @Test
  void clearingLeavesNothing() throws IOException {
    CubinCache cache = new CubinCache(directory, LARGE);
    cache.put("a", "", new byte[1]);
    cache.put("b", "", new byte[1]);
    Files.createFile(directory.resolve("x-2.tmp"));
    Path foreign = Files.createFile(directory.resolve("notes.txt"));
    assertThat(cache.clear()).isEqualTo(2);
    assertThat(cache.list()).isEmpty();
    try (Stream<Path> left = Files.list(directory)) {
      assertThat(left).containsExactly(foreign);
    }
    assertThat(new CubinCache(directory.resolve("absent"), LARGE).clear()).isZero();
  }

  @Test
  void unwritableDirectoryCostsOnlyTime() throws IOException {
    Path file = Files.createFile(directory.resolve("file"));
    CubinCache cache = new CubinCache(file.resolve("below"), LARGE);
    cache.put("a", "", new byte[1]);
    assertThat(cache.get("a")).isEmpty();
    assertThat(cache.list()).isEmpty();
  }

  @Test
  void aNewDirectoryIsForItsUserAlone() throws IOException {
    Path made = directory.resolve("new/place");
    new CubinCache(made, LARGE).put("a", "", new byte[] {1});
    assertThat(Files.getPosixFilePermissions(made))
        .isEqualTo(PosixFilePermissions.fromString("rwx------"));
  }

  /** A cubin is code: its author decides what runs. */
  @Test
  void whatOthersCanHaveWrittenIsNotUsed() throws IOException {
    Path place = directory.resolve("place");
    new CubinCache(place, LARGE).put("a", "", new byte[] {1});
    Path elsewhere = Files.move(place.resolve("a.cubin"), directory.resolve("a.cubin"));
    Files.createSymbolicLink(place.resolve("a.cubin"), elsewhere);
    assertThat(new CubinCache(place, LARGE).get("a")).as("a symbolic link").isEmpty();
    Files.move(elsewhere, place.resolve("a.cubin"), StandardCopyOption.REPLACE_EXISTING);
    assertThat(new CubinCache(place, LARGE).get("a")).isPresent();

    Files.setPosixFilePermissions(place, PosixFilePermissions.fromString("rwxrwx---"));
    CubinCache open = new CubinCache(place, LARGE);
    assertThat(open.get("a")).as("others can write").isEmpty();
    open.put("b", "", new byte[] {2});
    assertThat(place.resolve("b.cubin")).doesNotExist();
    Files.setPosixFilePermissions(place, PosixFilePermissions.fromString("rwxr-xr-x"));
    assertThat(new CubinCache(place, LARGE).get("a")).isPresent();

    assumeTrue((int) Files.getAttribute(place, "unix:uid") == 0, "only root gives files away");
    Files.setAttribute(place.resolve("a.cubin"), "unix:uid", 65_534);
    assertThat(new CubinCache(place, LARGE).get("a")).as("a file of another user").isEmpty();
    Files.setAttribute(place.resolve("a.cubin"), "unix:uid", 0);
    Files.setAttribute(place, "unix:uid", 65_534);
    assertThat(new CubinCache(place, LARGE).get("a")).as("a directory of another").isEmpty();
  }

  @Test
  void theNewestOfAPrefixIsFound() {
    CubinCache cache = new CubinCache(directory, LARGE);
    cache.put("f-nvrtc12.9", "", new byte[] {1});
    cache.put("f-nvrtc13.0", "", new byte[] {2});
    cache.put("g-nvrtc14.0", "", new byte[] {3});
    assertThat(cache.getNewest("f-")).hasValue(new byte[] {2});
    assertThat(cache.getNewest("h-")).isEmpty();
  }

  @Test
  void severalProcessesReadWriteAndDeleteConcurrently() throws Exception {
    // Space for about half of the keys, so that files are deleted all the time.
    List<Process> processes = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      processes.add(
          ForkedJvm.start(
              Hammer.class, Map.of(), List.of(directory.toString(), "70000", String.valueOf(i))));
    }
    int hits = 0;
    for (Process process : processes) {
      List<String> lines = ForkedJvm.finish(process);
      assertThat(lines).noneMatch(line -> line.contains("damaged"));
      assertThat(lines).noneMatch(line -> line.contains("cannot"));
      hits += Integer.parseInt(lines.getLast().substring("hits ".length()));
    }
    assertThat(hits).isPositive();
    try (Stream<Path> left = Files.list(directory)) {
      assertThat(left).noneMatch(path -> path.toString().endsWith(".tmp"));
    }
  }

  @Test
  void aProcessKilledWhileItWritesDoesNoHarm() throws Exception {
    CubinCache cache = new CubinCache(directory, LARGE);
    for (int i = 0; i < 3; i++) {
      Process process =
          ForkedJvm.start(
              Hammer.class, Map.of(), List.of(directory.toString(), "70000", String.valueOf(i)));
      Thread.sleep(400 + 150L * i);
      process.destroyForcibly();
      process.waitFor();
      for (int key = 0; key < Hammer.KEYS; key++) {
        byte[] found = cache.get("key" + key).orElse(null);
        if (found != null) {
          assertThat(found).isEqualTo(Hammer.image(key));
        }
      }
    }
  }

  @Test
  void theEnvironmentNamesPlaceAndSize() {
    CubinCache cache =
        CubinCache.standard(
            Map.of(CubinCache.DIRECTORY_VARIABLE, "/some/where", CubinCache.SIZE_VARIABLE, "7"));
    assertThat(cache.directory()).isEqualTo(Path.of("/some/where"));
    assertThat(cache.limitBytes()).isEqualTo(7 << 20);
    CubinCache usual = CubinCache.standard(Map.of());
    assertThat(usual.directory()).endsWithRaw(Path.of(".cache/ep4j/cubin"));
    assertThat(usual.limitBytes()).isEqualTo(512 << 20);
    assertThat(CubinCache.standard(Map.of("XDG_CACHE_HOME", "/c")).directory())
        .isEqualTo(Path.of("/c/ep4j/cubin"));
    for (String wrong : List.of("0", "-1", "many", "1.5")) {
      assertThatThrownBy(() -> CubinCache.standard(Map.of(CubinCache.SIZE_VARIABLE, wrong)))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageContaining(CubinCache.SIZE_VARIABLE);
    }
  }

  @Test
  void aUserWithoutADirectoryHasNoCacheInTheWorkingDirectory() {
    String home = System.getProperty("user.home");
    // What the JVM reports for a user without an entry in the user database.
    System.setProperty("user.home", "?");
    try {
      assertThat(CubinCache.standard(Map.of("HOME", "/h")).directory())
          .isEqualTo(Path.of("/h/.cache/ep4j/cubin"));
      Path none = CubinCache.standard(Map.of()).directory();
      assertThat(none).isAbsolute();
      assertThatThrownBy(() -> Files.createDirectories(none)).isInstanceOf(IOException.class);
    } finally {
      System.setProperty("user.home", home);
    }
  }

  private void age(String key, int minutes) throws IOException {
    Files.setLastModifiedTime(
        directory.resolve(key + ".cubin"),
        FileTime.from(Instant.now().minus(Duration.ofMinutes(minutes))));
  }

  private static List<String> keys(CubinCache cache) {
    return cache.list().stream().map(CubinCache.Entry::key).toList();
  }
}
