package org.ep4j.cli.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.ProfileConstant;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.FieldSource;

class ProfileFileTest {
  static final Object NAMES = ProfileFile.NAMES;

  @TempDir Path scratch;

  @ParameterizedTest
  @FieldSource("NAMES")
  void everyConstantOfEveryMachineHasASource(String machine) {
    MachineProfile profile = ProfileFile.read(machine);

    assertThat(profile.name()).isEqualTo(machine);
    for (ProfileConstant constant : ProfileConstant.values()) {
      assertThat(profile.source(constant)).as(constant.key()).hasSizeGreaterThan(5);
    }
  }

  @Test
  void aFileIsAProfile() throws IOException {
    Path file = scratch.resolve("mine.json");
    Files.writeString(
        file,
        ProfileFile.text("h200")
            .replace("\"name\": \"h200\"", "\"name\": \"mine\"")
            .replace("\"value\": 365", "\"value\": 123.5"));

    MachineProfile profile = ProfileFile.read(file.toString());

    assertThat(profile.name()).isEqualTo("mine");
    assertThat(profile.value(ProfileConstant.NVLINK_DISPATCH_GBPS)).isEqualTo(123.5);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "\"version\": 1 | \"version\": 2 | version = 2; it must be 1",
        "\"version\": 1 | \"version\": \"1\" | version = value string",
        "\"version\": 1, | '' | version = 0; it must be 1",
        "\"nic_mmsgs\" | \"nic_bps\" | a constant = 'nic_bps'",
        "\"nic_mmsgs\" | \"nic_ports\" | Duplicate field 'nic_ports'",
        "\"value\": 365 | \"value\": -365 | nvlink_dispatch_gbps = -365.0; it must be 1 to 100000",
        "\"value\": 365 | \"value\": 1e999 | nvlink_dispatch_gbps = Infinity",
        "\"value\": 365 | \"value\": NaN | NaN",
        "\"value\": 365 | \"value\": \"365\" | nvlink_dispatch_gbps = 365; it must be a number",
        "\"value\": 365 | \"values\": 365 | a field = 'values'",
        "\"constants\": { | \"constant\": { | a field = 'constant'",
        "\"name\": \"h200\" | \"name\": 200 | name = value number int",
        "\"version\": 1 | [ | Unexpected character"
      })
  void nonsenseIsRefusedByName(String text, String wrong, String message) {
    String profile = ProfileFile.text("h200");
    assertThat(profile).contains(text);

    assertThatThrownBy(() -> ProfileFile.parse("mine.json", profile.replace(text, wrong)))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.PROFILE_INVALID.id())
        .hasMessageContaining("mine.json")
        .hasMessageContaining(message);
  }

  @Test
  void textThatIsNoProfileIsRefused() throws IOException {
    for (String text : new String[] {"", "[]", "{}", "null", "{\"constants\": []}", "\u0000"}) {
      assertThatThrownBy(() -> ProfileFile.parse("mine.json", text))
          .as(text)
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.PROFILE_INVALID.id());
    }
    String twice = ProfileFile.text("h200") + "{}";
    assertThatThrownBy(() -> ProfileFile.parse("mine.json", twice))
        .hasMessageContaining("text behind the object");
    Path large = scratch.resolve("large.json");
    Files.writeString(large, " ".repeat((1 << 20) + 1));
    assertThatThrownBy(() -> ProfileFile.read(large.toString())).hasMessageContaining("1 MiB");
  }
}
