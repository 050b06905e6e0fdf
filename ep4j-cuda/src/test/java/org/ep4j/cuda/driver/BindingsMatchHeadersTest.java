package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.GroupLayout;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.PaddingLayout;
import java.lang.foreign.StructLayout;
import java.lang.reflect.Field;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.DriverFunction;
import org.ep4j.cuda.driver.calls.DriverLayouts;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Signatures, structures and constants match cuda.h, as a compiler reads it. */
class BindingsMatchHeadersTest {
  /** Prints a parameter list as one letter each: integer of 4 bytes, of 8 bytes, structure. */
  private static final String SHOW =
      """
      #include <type_traits>
      template <class T> const char* kind() {
        return std::is_class<T>::value ? "s" : sizeof(T) == 8 ? "l" : "i";
      }
      template <class... A> void show(const char* name, CUresult (*)(A...)) {
        std::printf("%s -", name);
        (std::printf("%s", kind<A>()), ...);
        std::printf("\\n");
      }
      """;

  private static final List<StructLayout> STRUCTURES =
      List.of(
          DriverLayouts.IPC_HANDLE,
          DriverLayouts.LAUNCH_CONFIG,
          DriverLayouts.LAUNCH_ATTRIBUTE,
          DriverLayouts.ALLOCATION_PROPERTIES,
          DriverLayouts.ACCESS_DESCRIPTION);

  @TempDir private Path directory;

  @Test
  void everyFunctionHasTheParametersOfTheHeader() throws Exception {
    StringBuilder body = new StringBuilder();
    Map<String, String> ours = new LinkedHashMap<>();
    for (DriverFunction function : DriverFunction.values()) {
      String symbol = function.symbol();
      // Not called and so not linked; the text keeps the name that a macro of the header may
      // replace.
      body.append("show(\"").append(symbol).append("\", decltype(&").append(symbol);
      body.append(")(nullptr));\n");
      ours.put(symbol, "-" + letters(function));
    }
    assertThat(HeaderProgram.run("cuda.h", SHOW, body.toString(), directory)).isEqualTo(ours);
  }

  private static String letters(DriverFunction function) {
    return function.descriptor().argumentLayouts().stream()
        .map(layout -> layout instanceof GroupLayout ? "s" : layout.byteSize() == 8 ? "l" : "i")
        .collect(Collectors.joining());
  }

  @Test
  void everyStructureHasTheLayoutOfTheHeader() throws Exception {
    StringBuilder body = new StringBuilder();
    Map<String, String> ours = new LinkedHashMap<>();
    for (StructLayout structure : STRUCTURES) {
      String type = structure.name().orElseThrow();
      ask(body, type, "sizeof(" + type + ")");
      ours.put(type, String.valueOf(structure.byteSize()));
      for (MemoryLayout member : structure.memberLayouts()) {
        if (member instanceof PaddingLayout) {
          continue;
        }
        String field = member.name().orElseThrow();
        ask(body, type + "." + field, "offsetof(" + type + ", " + field + ")");
        ours.put(type + "." + field, String.valueOf(DriverLayouts.offset(structure, field)));
        ask(body, type + "." + field + ":bytes", "sizeof(((" + type + "*)0)->" + field + ")");
        ours.put(type + "." + field + ":bytes", String.valueOf(member.byteSize()));
      }
    }
    assertThat(HeaderProgram.run("cuda.h", "", body.toString(), directory)).isEqualTo(ours);
  }

  @Test
  void everyNumberIsThatOfTheHeader() throws Exception {
    StringBuilder body = new StringBuilder();
    Map<String, String> ours = new LinkedHashMap<>();
    for (Field field : DriverConstants.class.getDeclaredFields()) {
      field.setAccessible(true); // of the package beside this one
      ask(body, field.getName(), "(size_t)" + field.getName());
      ours.put(field.getName(), String.valueOf(field.getInt(null)));
    }
    for (CaptureMode mode : CaptureMode.values()) {
      String name = "CU_STREAM_CAPTURE_MODE_" + mode;
      ask(body, name, "(size_t)" + name);
      ours.put(name, String.valueOf(mode.ordinal()));
    }
    for (PointerAttributes.Type type : PointerAttributes.Type.values()) {
      if (type != PointerAttributes.Type.UNKNOWN) {
        String name = "CU_MEMORYTYPE_" + type;
        ask(body, name, "(size_t)" + name);
        ours.put(name, String.valueOf(type.ordinal()));
      }
    }
    ask(body, "CU_IPC_HANDLE_SIZE", "(size_t)CU_IPC_HANDLE_SIZE");
    ours.put("CU_IPC_HANDLE_SIZE", String.valueOf(IpcMemory.HANDLE_BYTES));
    ask(body, "CUmemFabricHandle", "sizeof(CUmemFabricHandle)");
    ours.put("CUmemFabricHandle", String.valueOf(VmmMemory.FABRIC_HANDLE_BYTES));
    assertThat(HeaderProgram.run("cuda.h", "", body.toString(), directory)).isEqualTo(ours);
  }

  private static void ask(StringBuilder body, String name, String expression) {
    body.append("std::printf(\"").append(name).append(" %zu\\n\", ");
    body.append(expression).append(");\n");
  }
}
