package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Finds calls that allocate although they are warm. Each program runs in a JVM of its own, as in
 * production: C2 inlines by profiles, and all users of the Vector API share its profiles. A vector
 * that passes a call which is not inlined is an object.
 */
public final class AllocatingCalls {
  private static final int MAX_JVMS = 3;
  private static final Pattern LINE = Pattern.compile("allocated (\\d+) bytes by (.*)");

  private AllocatingCalls() {}

  /** Prints what {@link #inEachJvm} reads. */
  public static void print(long bytes, String call) {
    System.out.println("allocated " + bytes + " bytes by " + call);
  }

  /**
   * The calls of a program that allocate in each of three JVMs. The inlining of C2 also depends on
   * the time of compilation: in rare JVMs a call allocates that does not in others. A method too
   * large for C2 allocates in all of them.
   *
   * @param properties options of the JVM beside those that the kernels need
   * @param calls number of lines that the program prints
   */
  public static Set<String> inEachJvm(
      Class<?> main, List<String> properties, List<String> arguments, int calls) throws Exception {
    Set<String> allocating = inOneJvm(main, properties, arguments, calls);
    for (int jvm = 2; jvm <= MAX_JVMS && !allocating.isEmpty(); jvm++) {
      System.out.println("allocating in JVM " + (jvm - 1) + ": " + allocating);
      allocating.retainAll(inOneJvm(main, properties, arguments, calls));
    }
    return allocating;
  }

  private static Set<String> inOneJvm(
      Class<?> main, List<String> properties, List<String> arguments, int calls) throws Exception {
    List<String> options =
        new ArrayList<>(
            List.of("--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED"));
    options.addAll(properties);
    List<String> lines = ForkedJvm.run(main, options, arguments);
    Set<String> allocating = new TreeSet<>();
    int counted = 0;
    for (String line : lines) {
      Matcher count = LINE.matcher(line);
      if (count.matches()) {
        counted++;
        if (!count.group(1).equals("0")) {
          allocating.add(count.group(2));
        }
      }
    }
    assertThat(counted).as("%s", lines).isEqualTo(calls);
    return allocating;
  }
}
