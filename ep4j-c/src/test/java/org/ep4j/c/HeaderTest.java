package org.ep4j.c;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.ep4j.c.struct.BufferStructs;
import org.ep4j.c.struct.CombineRequest;
import org.ep4j.c.struct.Constants;
import org.ep4j.c.struct.DispatchRequest;
import org.ep4j.c.struct.LowLatencyCombineRequest;
import org.ep4j.c.struct.LowLatencyDispatchRequest;
import org.ep4j.c.struct.Request;
import org.ep4j.c.struct.Struct;
import org.ep4j.c.struct.Tensors;
import org.ep4j.config.Layout;
import org.ep4j.conformance.world.HostCompiler;
import org.ep4j.observe.Verdict;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The compiler sees in {@code ep4j.h} what Java reads and writes. */
class HeaderTest {
  private static final List<Struct> STRUCTS =
      List.of(
          Tensors.TENSOR,
          Failures.ERROR,
          GroupFunctions.CONFIG,
          GroupFunctions.INFO,
          GroupFunctions.STATE,
          BufferStructs.CONFIG,
          BufferStructs.INFO,
          BufferStructs.SIZES,
          BufferStructs.STATISTICS,
          BufferStructs.PATH,
          Request.EXECUTION,
          DispatchRequest.ARGS,
          ThroughputFunctions.DISPATCHED,
          CombineRequest.ARGS,
          ThroughputFunctions.COMBINED,
          ThroughputFunctions.LAYOUT,
          LowLatencyDispatchRequest.ARGS,
          LowLatencyFunctions.DISPATCHED,
          LowLatencyCombineRequest.ARGS,
          LowLatencyFunctions.COMBINED,
          ObservationFunctions.OBSERVATION,
          ObservationFunctions.VERDICT);

  private static final List<Class<?>> FUNCTIONS =
      List.of(
          Failures.class,
          ObjectFunctions.class,
          GroupFunctions.class,
          BufferFunctions.class,
          ThroughputFunctions.class,
          LowLatencyFunctions.class,
          TensorFunctions.class,
          CallerFunctions.class,
          RoutingCounterFunctions.class,
          ObservationFunctions.class);

  @TempDir static Path directory;

  private static String header = "";

  @BeforeAll
  static void readHeader() throws IOException {
    HostCompiler.require("to compile ep4j.h");
    CProgram.header(directory);
    header = Files.readString(directory.resolve("ep4j.h"));
  }

  @Test
  void structuresOfTheHeaderAreThoseOfJava() throws Exception {
    List<String> expected = new ArrayList<>();
    StringBuilder program = new StringBuilder();
    for (Struct struct : STRUCTS) {
      expected.add(struct.name() + " " + struct.size());
      program.append("printf(\"%s %%zu\\n\", sizeof(%1$s));%n".formatted(struct.name()));
      for (Struct.Field field : struct.fields()) {
        expected.add(
            "%s.%s %d %d".formatted(struct.name(), field.name(), field.offset(), field.bytes()));
        program.append(
            "printf(\"%1$s.%2$s %%zu %%zu\\n\", offsetof(%1$s, %2$s), sizeof(((%1$s *)0)->%2$s));%n"
                .formatted(struct.name(), field.name()));
      }
    }
    assertThat(outputOf(program.toString())).isEqualTo(expected);
  }

  @Test
  void everyStructureOfTheHeaderIsCompared() {
    String interfacePart =
        header.substring(
            0, header.indexOf("#if defined(EP4J_IMPLEMENTATION) && !defined(EP4J_IMPLEMENTED)"));
    assertThat(
            Pattern.compile("typedef struct (ep4j_\\w+) \\{")
                .matcher(interfacePart)
                .results()
                .map((MatchResult found) -> found.group(1)))
        .containsExactlyInAnyOrderElementsOf(
            Stream.concat(STRUCTS.stream().map(Struct::name), Stream.of("ep4j_api")).toList());
  }

  @Test
  void functionsOfTheTableAreThoseOfJava() throws Exception {
    List<String> expected = new ArrayList<>();
    StringBuilder program = new StringBuilder();
    ApiFunction[] functions = ApiFunction.values();
    for (int i = 0; i < functions.length; i++) {
      String name = functions[i].cName();
      expected.add(
          "%s %d%s"
              .formatted(
                  name,
                  (2 + i) * 8,
                  Arrays.stream(method(name).getParameterTypes())
                      .map(type -> type == int.class ? " 4" : " 8")
                      .collect(Collectors.joining())));
      program.append(
          "printf(\"%1$s %%zu\", offsetof(ep4j_api, %1$s)); sizes(ep4j_api().%1$s);%n"
              .formatted(name));
    }
    expected.add("ep4j_api " + (2 + functions.length) * 8);
    program.append("printf(\"ep4j_api %zu\\n\", sizeof(ep4j_api));\n");
    assertThat(outputOf(program.toString())).isEqualTo(expected);
  }

  /**
   * The method behind a member of {@code ep4j_api}: static, of the same name in Java's spelling.
   */
  private static Method method(String cName) {
    String name =
        Pattern.compile("_(.)")
            .matcher(cName)
            .replaceAll(found -> found.group(1).toUpperCase(Locale.ROOT));
    return FUNCTIONS.stream()
        .flatMap(owner -> Arrays.stream(owner.getDeclaredMethods()))
        .filter(method -> method.getName().equals(name))
        .findFirst()
        .orElseThrow(() -> new AssertionError("no method " + name));
  }

  @Test
  void constantsOfTheHeaderAreThoseOfJava() throws Exception {
    List<String> expected = new ArrayList<>();
    StringBuilder program = new StringBuilder();
    constants(program, expected, "EP4J_", DType.values());
    constants(program, expected, "EP4J_", Layout.values());
    constants(program, expected, "EP4J_ROWS_", RowFormat.values());
    constants(program, expected, "EP4J_SCALES_", ScaleKind.values());
    constants(program, expected, "EP4J_ERROR_", ErrorKind.values());
    constants(program, expected, "EP4J_VERDICT_", Verdict.Cause.values());
    expected.add("EP4J_ABI_VERSION " + Abi.VERSION);
    program.append("printf(\"EP4J_ABI_VERSION %d\\n\", EP4J_ABI_VERSION);\n");
    assertThat(outputOf(program.toString())).isEqualTo(expected);
  }

  @Test
  void implementationCompilesWithoutWarnings() throws Exception {
    Path file = directory.resolve("implementation.c");
    // Other headers first: with -std=c99 they settle that functions of POSIX stay hidden.
    Files.writeString(
        file,
        """
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #define EP4J_IMPLEMENTATION
        #include "ep4j.h"
        int main(void) { return 0; }
        """);
    for (List<String> language :
        List.of(List.of("-x", "c", "-std=c99"), List.of("-x", "c++", "-std=c++11"))) {
      List<String> options = new ArrayList<>(language);
      options.addAll(
          List.of("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", directory.toString()));
      HostCompiler.compile(
          file, directory.resolve("implementation"), options.toArray(String[]::new));
    }
  }

  /** The start of the JVM finds functions by their position in tables that jni.h declares. */
  @Test
  void positionsOfJniFunctionsAreThoseOfTheJdk() throws Exception {
    Path jni = Path.of(System.getProperty("java.home"), "include");
    Assumptions.assumeTrue(Files.exists(jni.resolve("jni.h")), "this Java runtime has no jni.h");
    StringBuilder program = new StringBuilder();
    List<String> expected = new ArrayList<>();
    for (String line :
        List.of(
            "JNIInvokeInterface_ DetachCurrentThread EP4J_VM_DETACH",
            "JNIInvokeInterface_ GetEnv EP4J_VM_GET_ENV",
            "JNIInvokeInterface_ AttachCurrentThreadAsDaemon EP4J_VM_ATTACH_DAEMON",
            "JNINativeInterface_ FindClass EP4J_JNI_FIND_CLASS",
            "JNINativeInterface_ ExceptionOccurred EP4J_JNI_EXCEPTION_OCCURRED",
            "JNINativeInterface_ ExceptionClear EP4J_JNI_EXCEPTION_CLEAR",
            "JNINativeInterface_ GetObjectClass EP4J_JNI_GET_OBJECT_CLASS",
            "JNINativeInterface_ GetMethodID EP4J_JNI_GET_METHOD_ID",
            "JNINativeInterface_ CallObjectMethodA EP4J_JNI_CALL_OBJECT_METHOD_A",
            "JNINativeInterface_ GetStaticMethodID EP4J_JNI_GET_STATIC_METHOD_ID",
            "JNINativeInterface_ CallStaticLongMethodA EP4J_JNI_CALL_STATIC_LONG_METHOD_A",
            "JNINativeInterface_ GetStringUTFChars EP4J_JNI_GET_STRING_UTF_CHARS")) {
      String[] words = line.split(" ", -1);
      program.append(
          "printf(\"%2$s %%d\\n\", (int)(offsetof(struct %1$s, %2$s) / sizeof(void *)) - %3$s);%n"
              .formatted((Object[]) words));
      expected.add(words[1] + " 0");
    }
    assertThat(
            outputOf(
                "#include <jni.h>\n",
                program.toString(),
                "-I",
                jni.toString(),
                "-I",
                jni.resolve("linux").toString()))
        .isEqualTo(expected);
  }

  private static void constants(
      StringBuilder program, List<String> expected, String prefix, Enum<?>[] constants) {
    for (Enum<?> constant : constants) {
      String name = prefix + constant.name().toUpperCase(Locale.ROOT);
      expected.add(name + " " + Constants.number(constant));
      program.append("printf(\"%1$s %%d\\n\", %1$s);%n".formatted(name));
    }
  }

  private List<String> outputOf(String statements) throws IOException, InterruptedException {
    return outputOf("", statements);
  }

  private List<String> outputOf(String includes, String statements, String... more)
      throws IOException, InterruptedException {
    Path file = directory.resolve("program.cc");
    Files.writeString(
        file,
        includes
            + """
            #define EP4J_IMPLEMENTATION
            #include "ep4j.h"
            #include <cstdio>
            // A trailing zero: an array may not be empty.
            template <class... Parameters> void sizes(int32_t (*)(Parameters...)) {
              size_t all[] = {sizeof(Parameters)..., 0};
              for (size_t i = 0; i < sizeof...(Parameters); i++) std::printf(" %zu", all[i]);
              std::printf("\\n");
            }
            int main() {
            """
            + statements
            + "}\n");
    Path program = directory.resolve("program");
    List<String> options =
        new ArrayList<>(List.of("-std=c++11", "-Wno-invalid-offsetof", "-I", directory.toString()));
    options.addAll(List.of(more));
    HostCompiler.compile(file, program, options.toArray(String[]::new));
    HostCompiler.Outcome outcome = HostCompiler.run(List.of(program.toString()), 60);
    assertThat(outcome.status()).as(outcome.output()).isZero();
    return outcome.output().lines().toList();
  }
}
