package org.ep4j.cuda.driver.calls;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.FileInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.ep4j.cuda.driver.ForkedJvm;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FileDescriptorsTest {
  @TempDir private Path directory;

  /**
   * Opens a file named by an argument, prints its descriptor, and waits for the end of its input.
   */
  static final class Holder {
    private Holder() {}

    public static void main(String[] arguments) throws IOException {
      Path file = Path.of(arguments[0]).toRealPath();
      try (var in = new FileInputStream(file.toFile())) {
        System.out.println("> " + numberOf(file));
        int end = System.in.read();
        System.out.println("> ended with " + end + ", file has " + in.available());
      }
    }

    private static String numberOf(Path file) throws IOException {
      try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
        return descriptors
            .filter(link -> pointsTo(link, file))
            .map(link -> link.getFileName().toString())
            .findFirst()
            .orElseThrow();
      }
    }

    private static boolean pointsTo(Path link, Path file) {
      try {
        return link.toRealPath().equals(file);
      } catch (IOException e) {
        return false;
      }
    }
  }

  @Test
  void aDescriptorOfAnotherProcessIsCopied() throws Exception {
    Path file = directory.resolve("shared");
    Files.writeString(file, "shared bytes");
    Process holder = ForkedJvm.start(Holder.class, Map.of(), List.of(file.toString()));
    int number = Integer.parseInt(answer(holder));
    int copy = FileDescriptors.copyFrom(holder.pid(), number);
    Files.delete(file);
    String content = Files.readString(Path.of("/proc/self/fd/" + copy), StandardCharsets.UTF_8);
    FileDescriptors.close(copy);
    holder.getOutputStream().close();
    ForkedJvm.finish(holder);
    assertThat(content).isEqualTo("shared bytes");
    assertThatThrownBy(() -> FileDescriptors.close(copy)).isInstanceOf(Ep4jException.class);
  }

  @Test
  void missingProcessIsReported() {
    assertThatThrownBy(() -> FileDescriptors.copyFrom(4_194_303, 5))
        .isInstanceOf(Ep4jException.class)
        .hasMessageContaining("process 4194303")
        .hasMessageStartingWith(ErrorCode.FILE_DESCRIPTOR_COPY.id());
  }

  private static String answer(Process process) throws IOException {
    var reader = process.inputReader(StandardCharsets.UTF_8);
    String line;
    while ((line = reader.readLine()) != null) {
      if (line.startsWith("> ")) {
        return line.substring(2);
      }
    }
    throw new AssertionError("the process ended without an answer");
  }
}
