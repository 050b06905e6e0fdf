package org.ep4j.cuda.engine.launch;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The host writes parameters by index: names and order must match the kernels. */
class ParameterFieldsTest {
  private static final Pattern FIELD = Pattern.compile(".*?(\\w+);");

  @ParameterizedTest
  @CsvSource({
    "common/protocol.cuh, Control, ControlField",
    "dispatch/dispatch_parameters.cuh, DispatchParameters, DispatchField",
    "combine/combine_parameters.cuh, CombineParameters, CombineField",
    "dispatch/layout.cu, LayoutParameters, LayoutField",
    "dispatch/transpose_scales.cu, TransposeParameters, TransposeField",
    "lowlatency/low_latency.cuh, LowLatencyParameters, LowLatencyField",
    "lowlatency/low_latency_puts.cuh, LowLatencyPuts, LowLatencyPutsField",
    "internode/internode.cuh, InternodePartner, org.ep4j.cuda.internode.InternodePartnerField",
    "internode/internode.cuh, InternodeWorld, org.ep4j.cuda.internode.InternodeWorldField",
    "internode/internode_transport.cuh, InternodeTransport,"
        + " org.ep4j.cuda.internode.InternodeTransportField",
    "transport/device_put.cuh, DevicePut, org.ep4j.cuda.put.PutField"
  })
  void fieldsOfTheHostAreThoseOfTheKernel(String file, String struct, String fields)
      throws Exception {
    Class<?> type =
        Class.forName(fields.contains(".") ? fields : "org.ep4j.cuda.engine.launch." + fields);
    List<String> names =
        Stream.of(type.getEnumConstants())
            .map(field -> field.toString().toLowerCase(Locale.ROOT))
            .toList();
    assertThat(names).isEqualTo(structFields(file, struct));
  }

  private static List<String> structFields(String file, String struct) throws IOException {
    try (InputStream source =
        ParameterFieldsTest.class.getResourceAsStream("/org/ep4j/cuda/kernels/" + file)) {
      assertThat(source).as(file).isNotNull();
      String text = new String(source.readAllBytes(), StandardCharsets.UTF_8);
      int start = text.indexOf("struct " + struct + " {");
      assertThat(start).as(struct + " in " + file).isNotNegative();
      List<String> names = new ArrayList<>();
      for (String line : text.substring(start, text.indexOf("};", start)).split("\n")) {
        Matcher field = FIELD.matcher(line.replaceAll("//.*", "").strip());
        if (field.matches()) {
          // A receipt has two fields.
          names.addAll(
              field.group(1).equals("receipt")
                  ? List.of("ticket", "completed")
                  : List.of(field.group(1)));
        }
      }
      return names;
    }
  }
}
