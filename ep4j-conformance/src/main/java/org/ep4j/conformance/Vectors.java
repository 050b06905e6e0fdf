package org.ep4j.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.ep4j.cases.CaseDirectory;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;

/**
 * The recorded vectors: a directory with one case per subdirectory, named by system property {@code
 * ep4j.vectors} or environment variable {@code EP4J_VECTORS}.
 */
public final class Vectors {
  /** System property that names the directory. */
  public static final String PROPERTY = "ep4j.vectors";

  /** Environment variable that names the directory; wins over the property, which builds set. */
  public static final String VARIABLE = "EP4J_VECTORS";

  private Vectors() {}

  /** The cases, sorted by name; empty if the directory does not exist. */
  public static List<CaseDirectory> cases() {
    Path root = Path.of(location());
    if (!Files.isDirectory(root)) {
      return List.of();
    }
    try (Stream<Path> entries = Files.walk(root, 2)) {
      return entries.filter(CaseDirectory::isCase).sorted().map(CaseDirectory::open).toList();
    } catch (IOException e) {
      throw new UncheckedIOException(root + ": cannot be listed: " + e, e);
    }
  }

  /** A test for each case; without vectors, one skipped test that names the searched directory. */
  public static Stream<DynamicTest> tests(Consumer<CaseDirectory> body) {
    List<CaseDirectory> cases = cases();
    if (cases.isEmpty()) {
      String problem = "no vectors in " + location() + ": set " + VARIABLE + " or -D" + PROPERTY;
      System.out.println(problem);
      return Stream.of(DynamicTest.dynamicTest("vectors", () -> Assumptions.abort(problem)));
    }
    return cases.stream()
        .map(
            one ->
                DynamicTest.dynamicTest(
                    String.valueOf(one.path().getFileName()), () -> body.accept(one)));
  }

  /** The searched directory. */
  public static String location() {
    String variable = System.getenv(VARIABLE);
    String property = System.getProperty(PROPERTY, "");
    if (variable != null && !variable.isBlank()) {
      return variable;
    }
    return property.isBlank() ? "vectors/v1" : property;
  }
}
