package org.ep4j.cli.launch;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** The command that starts this program again with the same JVM and options. */
public final class JavaCommand {
  private static final String NATIVE_CALLERS =
      "org.ep4j,org.ep4j.cuda,org.ep4j.moe,org.ep4j.nccl,org.ep4j.nvshmem,org.ep4j.rdma";
  private static final String VECTOR = "jdk.incubator.vector";
  private static final String MODULE = "org.ep4j.cli";
  private static final String MAIN = MODULE + ".Main";

  /** Options of java whose value is the next argument. */
  private static final Set<String> WITH_VALUE =
      Set.of(
          "-cp",
          "-classpath",
          "--class-path",
          "--add-exports",
          "--add-modules",
          "--add-opens",
          "--add-reads",
          "--enable-native-access",
          "--limit-modules",
          "--patch-module",
          "--source",
          "--upgrade-module-path");

  private JavaCommand() {}

  /**
   * The command for a child with these arguments.
   *
   * @param jvmOptions options in front of those of this JVM, which override them
   */
  public static List<String> again(List<String> jvmOptions, List<String> arguments) {
    String[] own = ProcessHandle.current().info().arguments().orElse(new String[0]);
    String modulePath = System.getProperty("jdk.module.path");
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(jvmOptions);
    if (ModuleLayer.boot().findModule(VECTOR).isPresent()) {
      command.addAll(List.of("--add-modules", VECTOR));
    }
    if (modulePath != null && JavaCommand.class.getModule().isNamed()) {
      command.add("--enable-native-access=" + NATIVE_CALLERS);
      command.addAll(inherited(own));
      command.addAll(List.of("--module-path", modulePath, "--module", MODULE + "/" + MAIN));
    } else {
      command.add("--enable-native-access=ALL-UNNAMED");
      command.addAll(inherited(own));
      command.addAll(List.of("--class-path", System.getProperty("java.class.path"), MAIN));
    }
    command.addAll(arguments);
    return command;
  }

  /**
   * The command that runs another program on the JVM of this program, with the options that ep4j
   * needs.
   *
   * @param arguments options of java, the main class and its arguments
   */
  public static List<String> program(List<String> arguments) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    if (ModuleLayer.boot().findModule(VECTOR).isPresent()) {
      command.addAll(List.of("--add-modules", VECTOR));
    }
    command.add(
        "--enable-native-access=" + (isModular(arguments) ? NATIVE_CALLERS : "ALL-UNNAMED"));
    command.addAll(arguments);
    return command;
  }

  /**
   * Whether options of java name a module path. They end before the first argument that is neither
   * an option nor the value of one: behind it, {@code -p} belongs to the program.
   */
  private static boolean isModular(List<String> arguments) {
    String before = "";
    for (String argument : arguments) {
      if (argument.equals("-p") || argument.startsWith("--module-path")) {
        return true;
      }
      boolean option = argument.startsWith("-") || argument.startsWith("@");
      if (!option && !WITH_VALUE.contains(before)) {
        return false;
      }
      before = argument;
    }
    return false;
  }

  /**
   * Options of this JVM that a child inherits: sizes, tuning and system properties. If this program
   * was not started by its module or class name (in a test), only system properties are known.
   */
  static List<String> inherited(String[] own) {
    List<String> options = new ArrayList<>();
    for (String argument : own) {
      if (argument.equals("-m")
          || argument.startsWith("--module=")
          || argument.equals("--module")
          || argument.equals(MAIN)) {
        return options;
      }
      if (argument.startsWith("-X") || argument.startsWith("-D") || argument.equals("-ea")) {
        options.add(argument);
      }
    }
    options.clear();
    System.getProperties()
        .forEach(
            (name, value) -> {
              if (name.toString().startsWith("ep4j.")) {
                options.add("-D" + name + "=" + value);
              }
            });
    return options;
  }
}
