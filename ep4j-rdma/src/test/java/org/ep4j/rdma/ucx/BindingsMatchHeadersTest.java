package org.ep4j.rdma.ucx;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.PaddingLayout;
import java.lang.foreign.StructLayout;
import java.lang.reflect.Field;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.ep4j.rdma.ucx.bindings.UcpConstants;
import org.ep4j.rdma.ucx.bindings.UcpFunction;
import org.ep4j.rdma.ucx.bindings.UcpLayouts;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Compares signatures, structures and constants with ucp.h, as compiled by a C++ compiler. */
class BindingsMatchHeadersTest {
  /** Prints a signature as the sizes of its types, result first; void is 0. */
  private static final String SHOW =
      """
      #include <ucs/memory/memory_type.h>
      template <class T> struct size { static const unsigned value = sizeof(T); };
      template <> struct size<void> { static const unsigned value = 0; };
      template <class R, class... A> void show(const char* name, R (*)(A...)) {
        std::printf("%s %u-", name, size<R>::value);
        (std::printf("%u", size<A>::value), ...);
        std::printf("\\n");
      }
      """;

  private static final List<StructLayout> STRUCTURES =
      List.of(
          UcpLayouts.PARAMS,
          UcpLayouts.CONTEXT_ATTR,
          UcpLayouts.WORKER_PARAMS,
          UcpLayouts.WORKER_ATTR,
          UcpLayouts.AM_HANDLER_PARAM,
          UcpLayouts.EP_PARAMS,
          UcpLayouts.MEM_MAP_PARAMS,
          UcpLayouts.MEM_ATTR,
          UcpLayouts.REQUEST_PARAM);

  @TempDir private Path directory;

  @Test
  void everyFunctionHasTheSignatureOfTheHeader() throws Exception {
    StringBuilder body = new StringBuilder();
    Map<String, String> ours = new LinkedHashMap<>();
    for (UcpFunction function : UcpFunction.values()) {
      String symbol = function.symbol();
      // The program does not call it, so the linker does not need it.
      body.append("show(\"").append(symbol).append("\", decltype(&").append(symbol);
      body.append(")(nullptr));\n");
      ours.put(symbol, sizes(function));
    }
    assertThat(HeaderProgram.run(SHOW, body.toString(), directory)).isEqualTo(ours);
  }

  private static String sizes(UcpFunction function) {
    return function.descriptor().returnLayout().map(MemoryLayout::byteSize).orElse(0L)
        + "-"
        + function.descriptor().argumentLayouts().stream()
            .map(layout -> String.valueOf(layout.byteSize()))
            .collect(Collectors.joining());
  }

  @Test
  void theFunctionsThatUcxCallsHaveTheSignaturesOfTheHeader() throws Exception {
    String body =
        """
        show("message", ucp_am_recv_callback_t(nullptr));
        show("failure", ucp_err_handler_cb_t(nullptr));
        """;
    assertThat(HeaderProgram.run(SHOW, body, directory))
        .isEqualTo(Map.of("message", "1-888888", "failure", "0-881"));
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
        ours.put(type + "." + field, String.valueOf(UcpLayouts.offset(structure, field)));
        ask(body, type + "." + field + ":bytes", "sizeof(((" + type + "*)0)->" + field + ")");
        ours.put(type + "." + field + ":bytes", String.valueOf(member.byteSize()));
      }
    }
    assertThat(HeaderProgram.run(SHOW, body.toString(), directory)).isEqualTo(ours);
  }

  @Test
  void everyNumberIsThatOfTheHeader() throws Exception {
    StringBuilder body = new StringBuilder();
    Map<String, String> ours = new LinkedHashMap<>();
    for (Field field : UcpConstants.class.getDeclaredFields()) {
      field.setAccessible(true); // of the package beside this one
      body.append("std::printf(\"").append(field.getName()).append(" %ld\\n\", (long)");
      body.append(field.getName()).append(");\n");
      ours.put(field.getName(), String.valueOf(field.getInt(null)));
    }
    assertThat(HeaderProgram.run(SHOW, body.toString(), directory)).isEqualTo(ours);
  }

  private static void ask(StringBuilder body, String name, String expression) {
    body.append("std::printf(\"").append(name).append(" %zu\\n\", ");
    body.append(expression).append(");\n");
  }
}
