package org.ep4j.cli.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class OutputFileTest {
  @TempDir Path folder;

  private void write(Path path, String text) {
    OutputFile file = new OutputFile(path);
    assertThat(file.problem()).isEmpty();
    file.write(text);
  }

  @Test
  void aRegularFileIsReplacedAndKeepsItsMode() throws IOException {
    Path path = Files.writeString(folder.resolve("a"), "old");
    Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rw-------"));

    write(path, "new");
    assertThat(path).hasContent("new");
    assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(path)))
        .isEqualTo("rw-------");
    try (Stream<Path> files = Files.list(folder)) {
      assertThat(files).containsExactly(path);
    }
  }

  @Test
  void unfinishedFilesOfOthersStay() throws IOException {
    // In another container the same process id may write the same file.
    String name = "a." + ProcessHandle.current().pid() + ".unfinished";
    Path other = Files.writeString(folder.resolve(name), "half");

    write(folder.resolve("a"), "whole");
    assertThat(folder.resolve("a")).hasContent("whole");
    assertThat(other).hasContent("half");
  }

  @Test
  void aSymbolicLinkStaysAndItsTargetIsWritten() throws IOException {
    Path target = Files.createDirectory(folder.resolve("d")).resolve("target");
    Path inner = Files.createSymbolicLink(folder.resolve("d/inner"), Path.of("target"));
    Path link = Files.createSymbolicLink(folder.resolve("link"), Path.of("d/inner"));

    write(link, "first: the target does not exist");
    write(link, "second");
    assertThat(link).isSymbolicLink();
    assertThat(inner).isSymbolicLink();
    assertThat(target).hasContent("second");
  }

  @Test
  void aNamedPipeIsWrittenIntoAndStays() throws Exception {
    Path pipe = folder.resolve("pipe");
    assertThat(new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor()).isZero();
    CompletableFuture<String> reader =
        CompletableFuture.supplyAsync(
            () -> {
              try {
                return Files.readString(pipe);
              } catch (IOException e) {
                throw new IllegalStateException(e);
              }
            });

    write(pipe, "text");
    assertThat(reader.get(20, TimeUnit.SECONDS)).isEqualTo("text");
    assertThat(Files.isRegularFile(pipe)).isFalse();
  }

  @Test
  void aFullDeviceIsReported() {
    OutputFile full = new OutputFile(Path.of("/dev/full"));

    assertThat(full.problem()).isEmpty();
    assertThat(catchThrowable(() -> full.write("text")))
        .hasMessageContaining("EP4J-8020: /dev/full: cannot be written")
        .hasMessageContaining("No space left");
  }

  @Test
  void whatCannotBeWrittenIsKnownBeforehand() throws IOException {
    Path circle = folder.resolve("circle");
    Files.createSymbolicLink(circle, circle);

    assertThat(new OutputFile(folder).problem()).startsWith("is a directory");
    assertThat(new OutputFile(folder.resolve("no/file")).problem())
        .startsWith("its directory does not exist");
    assertThat(new OutputFile(circle).problem()).contains("circle");
    assertThat(new OutputFile(Path.of("-")).isStandardOutput()).isTrue();
    assertThat(new OutputFile(Path.of("/dev/stdout")).isStandardOutput()).isTrue();
  }
}
