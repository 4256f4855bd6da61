#include "modelstore/model_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "base/subprocess.h"

namespace haypile {
namespace {

namespace fs = std::filesystem;

// Sets an environment variable for a test's life.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~ScopedEnv() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// A cache folder and a folder of wheels of the test's own; pip sees no package index. Slow: pip takes a second a call.
class ModelStoreSlowTest : public testing::Test {
 protected:
  ModelStoreSlowTest()
      : root_(testing::TempDir() + "haypile_modelstore_" + std::to_string(getpid())),
        wheels_(root_ + "/wheels"),
        cache_env_("HAYPILE_CACHE", (root_ + "/cache").c_str()),
        no_index_("PIP_NO_INDEX", "1"),
        find_links_("PIP_FIND_LINKS", wheels_.c_str()) {
    fs::create_directories(wheels_);
  }
  ~ModelStoreSlowTest() override { fs::remove_all(root_); }

  // A wheel with one package folder that holds `member` with `content`.
  void MakeWheel(const std::string& package, const std::string& member, const std::string& content) const {
    static constexpr char kScript[] = R"python(
import sys, zipfile
folder, package, member, content_path = sys.argv[1:]
info = package + "-1.0.0.dist-info/"
with zipfile.ZipFile(f"{folder}/{package}-1.0.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
    wheel.write(content_path, member)
    wheel.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "")
)python";
    const std::string content_path = root_ + "/content";
    ASSERT_TRUE(WriteFileAtomic(content_path, content).ok());
    SubprocessSpec spec;
    spec.argv = {"python3", "-I", "-c", kScript, wheels_, package, member, content_path};
    const auto made = RunSubprocess(spec);
    ASSERT_TRUE(made.ok() && made->exit_status == 0) << (made.ok() ? made->error_output : made.error().message());
  }

  // A model of two parts, whose wheels exist.
  KnownModel TwoPartModel() const {
    const std::string first(100000, 'x'), second = "the end";
    MakeWheel("haypile_fake_part1", "haypile_fake_part1/data/part00", first);
    MakeWheel("haypile_fake_part2", "haypile_fake_part2/data/part01", second);
    KnownModel model;
    model.name = "fake";
    model.size_bytes = first.size() + second.size();
    model.sha256 = Sha256Hex(first + second);
    model.parts = {{"haypile-fake-part1", "1.0.0", "haypile_fake_part1/data/part00"},
                   {"haypile-fake-part2", "1.0.0", "haypile_fake_part2/data/part01"}};
    return model;
  }

  std::string Cached(const std::string& file) const { return root_ + "/cache/models/" + file; }

  // Everything in the cache except lock files.
  std::vector<std::string> CacheContents() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(root_ + "/cache")) {
      if (entry.is_regular_file() && entry.path().extension() != ".lock") names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string root_, wheels_;
  ScopedEnv cache_env_, no_index_, find_links_;
};

TEST(CacheFolder, FollowsTheThreeVariables) {
  const ScopedEnv home("HOME", "/home/someone");
  const ScopedEnv xdg("XDG_CACHE_HOME", nullptr);
  const ScopedEnv own("HAYPILE_CACHE", nullptr);
  EXPECT_EQ(CacheFolder().value(), "/home/someone/.cache/haypile");
  const ScopedEnv xdg_set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(CacheFolder().value(), "/xdg/haypile");
  const ScopedEnv own_set("HAYPILE_CACHE", "/own");
  EXPECT_EQ(CacheFolder().value(), "/own");
}

TEST(CacheFolder, NoHomeIsAnError) {
  const ScopedEnv home("HOME", nullptr), xdg("XDG_CACHE_HOME", nullptr), own("HAYPILE_CACHE", "");
  EXPECT_EQ(CacheFolder().error().code(), ErrorCode::kInvalidArgument);
}

TEST(KnownModel, TheCatalogueIsComplete) {
  for (const KnownModel& model : KnownModels()) {
    EXPECT_EQ(FindKnownModel(model.name), &model);
    EXPECT_EQ(model.sha256.size(), 64u);
    EXPECT_GT(model.size_bytes, 0u);
    EXPECT_FALSE(model.parts.empty());
    EXPECT_NE(KnownModelNames().find(model.name), std::string::npos);
  }
  EXPECT_EQ(FindKnownModel("no-such-model"), nullptr);
}

TEST_F(ModelStoreSlowTest, ResolveTellsWhatToDo) {
  const auto absent = ResolveModel("smollm2-135m");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(absent.error().message().find("haypile model get smollm2-135m"), std::string::npos);

  const auto unknown = ResolveModel("smolllm");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(unknown.error().message().find(KnownModelNames()), std::string::npos);

  EXPECT_EQ(ResolveModel(root_).value(), root_);

  fs::create_directories(root_ + "/cache/models");
  ASSERT_TRUE(WriteFileAtomic(Cached("smollm2-135m.gguf"), "short").ok());
  EXPECT_EQ(ResolveModel("smollm2-135m").error().code(), ErrorCode::kMalformed);
  fs::resize_file(Cached("smollm2-135m.gguf"), FindKnownModel("smollm2-135m")->size_bytes);
  EXPECT_EQ(ResolveModel("smollm2-135m").value(), Cached("smollm2-135m.gguf"));
}

TEST_F(ModelStoreSlowTest, GetJoinsThePartsAndDoesNoWorkTwice) {
  const KnownModel model = TwoPartModel();
  std::string last_step;
  GetModelOptions options;
  options.on_progress = [&](double, const std::string& what) { last_step = what; };
  const auto first = GetModel(model, options);
  ASSERT_TRUE(first.ok()) << first.error().message();
  EXPECT_TRUE(first->downloaded);
  EXPECT_EQ(Sha256OfFile(first->path).value(), model.sha256);
  EXPECT_EQ(CacheContents(), (std::vector<std::string>{"fake.gguf", "fake.gguf.verified"}));

  fs::remove_all(wheels_);
  last_step.clear();
  const auto second = GetModel(model, options);
  ASSERT_TRUE(second.ok()) << second.error().message();
  EXPECT_FALSE(second->downloaded);
  EXPECT_EQ(last_step, "") << "a verified file was read again";

  fs::remove(Cached("fake.gguf.verified"));
  const auto third = GetModel(model, options);
  ASSERT_TRUE(third.ok()) << third.error().message();
  EXPECT_FALSE(third->downloaded);
  EXPECT_EQ(last_step, "verifying fake");
  EXPECT_TRUE(fs::exists(Cached("fake.gguf.verified")));
}

TEST_F(ModelStoreSlowTest, ADamagedFileIsFetchedAnew) {
  const KnownModel model = TwoPartModel();
  ASSERT_TRUE(GetModel(model, {}).ok());
  ASSERT_TRUE(WriteFileAtomic(Cached("fake.gguf"), std::string(model.size_bytes, 'y')).ok());
  const auto again = GetModel(model, {});
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_TRUE(again->downloaded);
  EXPECT_EQ(Sha256OfFile(again->path).value(), model.sha256);
}

TEST_F(ModelStoreSlowTest, AWrongDigestLeavesNothing) {
  KnownModel model = TwoPartModel();
  model.sha256 = Sha256Hex("another file");
  const auto result = GetModel(model, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kMalformed);
  EXPECT_TRUE(CacheContents().empty());
}

TEST_F(ModelStoreSlowTest, AMissingPackageIsANetworkErrorWithPipsWords) {
  KnownModel model = TwoPartModel();
  model.parts[1].package = "haypile-fake-part3";
  const auto result = GetModel(model, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kNetwork);
  EXPECT_NE(result.error().message().find("haypile-fake-part3"), std::string::npos);
  EXPECT_TRUE(CacheContents().empty());
}

TEST_F(ModelStoreSlowTest, AnIndexThatDoesNotAnswerIsSaidInOneLine) {
  const KnownModel model = TwoPartModel();
  fs::remove_all(wheels_);
  fs::create_directories(wheels_);
  const ScopedEnv index("PIP_NO_INDEX", nullptr), url("PIP_INDEX_URL", "http://127.0.0.1:9/simple");
  const ScopedEnv retries("PIP_RETRIES", "1"), proxy("HTTP_PROXY", nullptr), lower_proxy("http_proxy", nullptr);
  const auto result = GetModel(model, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kNetwork);
  EXPECT_NE(result.error().message().find("did not answer"), std::string::npos) << result.error().message();
  EXPECT_EQ(result.error().message().find('\n'), std::string::npos);
}

TEST_F(ModelStoreSlowTest, AMissingMemberIsNamed) {
  KnownModel model = TwoPartModel();
  model.parts[1].member = "haypile_fake_part2/data/part07";
  const auto result = GetModel(model, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kMalformed);
  EXPECT_NE(result.error().message().find("part07"), std::string::npos);
}

TEST_F(ModelStoreSlowTest, TheLicenseIsShownOnceAndKept) {
  KnownModel model = TwoPartModel();
  MakeWheel("haypile_fake_terms", "haypile_fake_terms/TERMS.html",
            "<html><head><title>t</title></head><body>menu<article><p>You &amp; I <b>agree</b>.</p><script>x</script>"
            "<ul><li>Be kind.</li></ul></article>foot</body></html>");
  model.license_files = {{{"haypile-fake-terms", "1.0.0", "haypile_fake_terms/TERMS.html"}, "LICENSE.html", true}};
  GetModelOptions refuse;
  refuse.show_license = [](const std::string&) { return Status(Error(ErrorCode::kInterrupted, "not accepted")); };
  EXPECT_EQ(GetModel(model, refuse).error().code(), ErrorCode::kInterrupted);
  EXPECT_TRUE(CacheContents().empty());

  std::vector<std::string> shown;
  GetModelOptions options;
  options.show_license = [&](const std::string& text) {
    shown.push_back(text);
    return Status();
  };
  ASSERT_TRUE(GetModel(model, options).ok());
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0], "You & I agree.\nBe kind.\n\n");
  EXPECT_EQ(ReadFile(Cached("fake.LICENSE.html.txt")).value(), "You & I agree.\nBe kind.\n");
  EXPECT_TRUE(fs::exists(Cached("fake.LICENSE.html")));

  fs::remove(Cached("fake.gguf"));
  ASSERT_TRUE(GetModel(model, options).ok());
  EXPECT_EQ(shown.size(), 1u) << "the licence was shown before a later download";
}

TEST_F(ModelStoreSlowTest, RemainsOfAKilledProcessAreCleared) {
  const KnownModel model = TwoPartModel();
  fs::create_directories(root_ + "/cache/tmp/fake");
  ASSERT_TRUE(WriteFileAtomic(root_ + "/cache/tmp/fake/model.gguf", "half").ok());
  const auto result = GetModel(model, {});
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(CacheContents(), (std::vector<std::string>{"fake.gguf", "fake.gguf.verified"}));
}

TEST_F(ModelStoreSlowTest, TwoProcessesFetchOnce) {
  const KnownModel model = TwoPartModel();
  const pid_t child = fork();
  if (child == 0) {
    const auto result = GetModel(model, {});
    _exit(!result.ok() ? 2 : result->downloaded ? 1 : 0);
  }
  const auto own = GetModel(model, {});
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(own.ok()) << own.error().message();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_NE(WEXITSTATUS(status), 2);
  EXPECT_EQ(WEXITSTATUS(status) + (own->downloaded ? 1 : 0), 1) << "exactly one of the two downloads";
}

}  // namespace
}  // namespace haypile
